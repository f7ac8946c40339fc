#include "transport/inproc/backend.h"

#include <utility>

#include "transport/ring_stream.h"

namespace colla::transport::inproc {
namespace {

constexpr std::size_t kRingBytes = 256 << 10;  // Two of them stay in a core's cache.

}  // namespace

InprocBackend::InprocBackend(const Options& options, std::shared_ptr<Board> board)
    : options_(options),
      board_(std::move(board)),
      seat_(board_->seat(options.self)),
      memory_(options_, *board_) {}

InprocBackend::~InprocBackend() {
  const Peer& self = options_.peers[static_cast<std::size_t>(options_.self)];
  const MutexLock lock(board_->mutex);
  board_->arrivals[static_cast<std::size_t>(options_.self)].clear();
  seat_.gone.store(true, std::memory_order_release);
  for (int peer = 0; peer < static_cast<int>(options_.peers.size()); ++peer) {
    if (peer == options_.self) continue;
    // For those that are not connected; the streams of the others tell by themselves.
    tell(peer, {options_.self, nullptr,
                Status(StatusCode::kPeerLost, self.name + " is gone", options_.self)});
  }
}

void InprocBackend::tell(int peer, Arrival arrival) {
  board_->arrivals[static_cast<std::size_t>(peer)].push_back(std::move(arrival));
  board_->seat(peer).news.store(true, std::memory_order_release);
  board_->seat(peer).bell.ring();
}

void InprocBackend::connect(int peer) {
  Seat& theirs = board_->seat(peer);
  const MutexLock lock(board_->mutex);
  if (theirs.gone.load(std::memory_order_acquire)) return;  // Its departure is in our arrivals.

  struct Rings {
    std::shared_ptr<std::byte> up, down;
    std::shared_ptr<void> seats;
  };
  const std::size_t bytes = Ring::bytesFor(kRingBytes);
  const auto rings =
      std::make_shared<Rings>(Rings{allocatePages(bytes), allocatePages(bytes), board_->seats});
  if (rings->up == nullptr || rings->down == nullptr) {
    return tell(options_.self,
                {peer, nullptr, Status(StatusCode::kNoMemory, "no memory for a connection")});
  }
  const Ring up(std::span(rings->up.get(), bytes));
  const Ring down(std::span(rings->down.get(), bytes));
  auto here =
      std::make_unique<RingStream>(RingStream::Place{down, up, &theirs.bell, &theirs.gone, rings});
  auto there =
      std::make_unique<RingStream>(RingStream::Place{up, down, &seat_.bell, &seat_.gone, rings});
  tell(options_.self, {peer, std::move(here), {}});
  tell(peer, {options_.self, std::move(there), {}});
}

void InprocBackend::poll(std::vector<Arrival>& arrivals) {
  if (!seat_.news.load(std::memory_order_acquire)) return;
  const MutexLock lock(board_->mutex);
  seat_.news.store(false, std::memory_order_relaxed);
  auto& mine = board_->arrivals[static_cast<std::size_t>(options_.self)];
  for (Arrival& arrival : mine) arrivals.push_back(std::move(arrival));
  mine.clear();
}

void InprocBackend::sleep(std::span<Watch> watches, Deadline until) {
  const auto look = [&] {
    bool any = woken_.load(std::memory_order_acquire) || seat_.news.load(std::memory_order_acquire);
    for (Watch& watch : watches) {
      watch.ready = static_cast<const RingStream*>(watch.stream)->ready(watch.read, watch.write);
      any |= watch.ready;
    }
    return any;
  };
  const bool patient = !until.expired();
  if (!look() && patient) seat_.bell.wait(look, options_.spin.here(), until);
  woken_.store(false, std::memory_order_relaxed);
}

void InprocBackend::wake() {
  woken_.store(true, std::memory_order_release);
  seat_.bell.ring();
}

}  // namespace colla::transport::inproc
