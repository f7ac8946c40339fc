#include "transport/shm/backend.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "transport/ring_stream.h"
#include "transport/shm/transport.h"

namespace colla::transport::shm {
namespace {

using namespace std::chrono_literals;

// A ring's capacity: long messages go through it in parts, and it should stay in cache.
constexpr std::size_t kRingBytes = 128 << 10;
constexpr std::size_t kBellBytes = 4096;

// Sleeping is cut into slices, after each of which the sockets are looked at: for peers that are
// gone and for those that want a link. Short while links are being made, then longer.
constexpr auto kShortestSlice = 500us;
constexpr auto kLongestSlice = 20ms;

}  // namespace

Result<std::unique_ptr<ShmBackend>> ShmBackend::create(const Options& options,
                                                       std::unique_ptr<net::Listener> listener) {
  COLLA_TRY_ASSIGN(Segment bell, Segment::create(kBellBytes));
  return std::unique_ptr<ShmBackend>(new ShmBackend(options, std::move(listener), std::move(bell)));
}

ShmBackend::ShmBackend(const Options& options, std::unique_ptr<net::Listener> listener,
                       Segment bell)
    : options_(options),
      bell_(std::move(bell)),
      bells_(new std::atomic<Doorbell*>[options.peers.size()]()),
      slice_(kShortestSlice),
      listener_(std::move(listener)),
      links_(options.peers.size()) {
  const MutexLock lock(owner_->mutex);
  owner_->backend = this;
}

ShmBackend::~ShmBackend() {
  const MutexLock lock(owner_->mutex);
  owner_->backend = nullptr;
}

void ShmBackend::connect(int peer) {
  const MutexLock lock(mutex_);
  auto link = std::make_shared<Link>();
  link->peer = peer;
  link->connector = true;
  links_[peer] = link;
  slice_ = kShortestSlice;
  lastPoll_ = {};
}

void ShmBackend::expect(int peer) {
  const MutexLock lock(mutex_);
  if (links_[peer] == nullptr) knocks_.emplace_back(peer, options_.peers[peer].address);
}

void ShmBackend::poll(std::vector<Arrival>& arrivals) {
  const MutexLock lock(mutex_);
  pollLocked(arrivals);
}

void ShmBackend::pollLocked(std::vector<Arrival>& arrivals) {
  const TimePoint now = std::chrono::steady_clock::now();
  const auto slice = slice_.load();
  if (now - lastPoll_ < slice) return;
  lastPoll_ = now;
  slice_ = std::min<std::chrono::nanoseconds>(slice * 2, kLongestSlice);

  for (net::Connection& connection : listener_->step()) {
    const int peer = connection.hello.peer;
    if (peer <= options_.self || peer >= static_cast<int>(links_.size()) ||
        links_[peer] != nullptr) {
      log::warn("refused a connection that says it is process {} of this job", peer);
      continue;
    }
    links_[peer] = std::make_shared<Link>();
    links_[peer]->peer = peer;
    links_[peer]->socket = std::move(connection.stream);
    std::erase_if(knocks_, [&](const auto& knock) { return knock.first == peer; });
  }
  for (net::Listener::Misfit& misfit : listener_->takeMisfits()) {
    if (misfit.peer <= options_.self || misfit.peer >= static_cast<int>(links_.size())) continue;
    arrivals.push_back({misfit.peer, nullptr, std::move(misfit.why)});
  }
  std::erase_if(knocks_, [&](auto& entry) {
    auto& [peer, knock] = entry;
    const Status status = knock.look();
    if (!status.ok()) arrivals.push_back(noStream(peer, options_.peers[peer].name, status));
    return !status.ok();
  });
  for (const auto& link : links_) {
    if (link == nullptr) continue;
    if (link->up) {
      service(*link);
    } else if (!link->gone) {
      advance(*link, arrivals);
    }
  }
}

void ShmBackend::advance(Link& link, std::vector<Arrival>& arrivals) {
  slice_ = kShortestSlice;  // It is a matter of moments.
  const Status status = advanceOrFail(link, arrivals);
  if (status.ok()) return;
  link.gone = true;
  arrivals.push_back(noStream(link.peer, options_.peers[link.peer].name, status));
}

// Handshake, then both greetings.
Status ShmBackend::advanceOrFail(Link& link, std::vector<Arrival>& arrivals) {
  if (link.connector && link.socket == nullptr) {
    if (!link.handshake) {
      auto handshake =
          net::Handshake::connect(options_.peers[link.peer].address, handshakeOf(options_));
      if (handshake.status().code() == StatusCode::kTimeout) return {};  // Its queue is full now.
      if (!handshake.ok()) return handshake.status();
      link.handshake.emplace(*std::move(handshake));
    }
    COLLA_TRY_ASSIGN(const net::Step step, link.handshake->step());
    if (step != net::Step::kDone) return {};
    link.socket = link.handshake->takeStream();
    link.handshake.reset();
  }
  if (link.connector && !link.greeted) {
    COLLA_TRY_ASSIGN(link.rings, Segment::create(2 * Ring::bytesFor(kRingBytes)));
    COLLA_TRY(greet(link));
  }
  COLLA_TRY_ASSIGN(auto received, receiveControl(link.socket->fd()));
  return received ? onGreeting(link, *std::move(received), arrivals) : Status();
}

Status ShmBackend::greet(Link& link) {
  std::vector<int> fds = {bell_.fd()};
  Control greeting;
  if (link.connector) {
    fds.push_back(link.rings.fd());
    greeting.bytes = link.rings.bytes().size();
  }
  COLLA_TRY_ASSIGN(const bool sent, sendControl(link.socket->fd(), greeting, fds));
  if (!sent) return {StatusCode::kIo, "a new Unix socket takes nothing"};
  link.greeted = true;
  return {};
}

Status ShmBackend::onGreeting(Link& link, ReceivedControl received,
                              std::vector<Arrival>& arrivals) {
  const std::size_t wanted = link.connector ? 1 : 2;
  if (received.control.kind != Control::Kind::kGreeting || received.fds.size() != wanted) {
    return {StatusCode::kRefused, "a peer did not greet as it should"};
  }
  COLLA_TRY_ASSIGN(link.bell, Segment::attach(std::move(received.fds[0]), kBellBytes));
  if (!link.connector) {
    COLLA_TRY_ASSIGN(link.rings,
                     Segment::attach(std::move(received.fds[1]), received.control.bytes));
    if (link.rings.bytes().size() < 2 * Ring::bytesFor(kRingBytes)) {
      return {StatusCode::kRefused, "a peer's rings are too small"};
    }
    COLLA_TRY(greet(link));
  }
  link.up = true;
  auto* bell = reinterpret_cast<Doorbell*>(link.bell.bytes().data());
  bells_[link.peer].store(bell, std::memory_order_release);

  const auto memory = link.rings.bytes();
  const Ring up(memory.subspan(0, Ring::bytesFor(kRingBytes)));
  const Ring down(memory.subspan(Ring::bytesFor(kRingBytes), Ring::bytesFor(kRingBytes)));
  arrivals.push_back(
      {link.peer,
       std::make_unique<RingStream>(RingStream::Place{.in = link.connector ? down : up,
                                                      .out = link.connector ? up : down,
                                                      .theirs = bell,
                                                      .gone = &link.gone,
                                                      .memory = links_[link.peer]}),
       {}});
  std::vector<Control> known;
  for (const auto& [address, region] : regions_) {
    known.push_back({Control::Kind::kRegion, region.number, region.segment->bytes().size()});
  }
  std::ranges::sort(known, {}, &Control::region);
  for (const Control& region : known) tell(link, region);
  return {};
}

void ShmBackend::service(Link& link) {
  if (link.gone) return;
  while (true) {
    auto received = receiveControl(link.socket->fd());
    if (!received.ok()) {
      if (received.status().code() != StatusCode::kPeerLost) {
        log::error("{}: {}", options_.peers[link.peer].name, toString(received.status()));
      }
      link.gone = true;
      return;
    }
    if (!*received) break;
    Control& control = (*received)->control;
    if (control.kind == Control::Kind::kRelease) {
      link.regions.erase(control.region);
    } else if (control.kind == Control::Kind::kRegion && (*received)->fds.size() == 1) {
      link.newest = std::max(link.newest, control.region);
      auto segment = Segment::attach(std::move((*received)->fds[0]), control.bytes);
      if (segment.ok()) {
        link.regions[control.region] = std::make_shared<const Segment>(*std::move(segment));
      } else {
        link.refused[control.region] = segment.status();
      }
    }
  }
  flush(link);
}

void ShmBackend::tell(Link& link, const Control& control) {
  link.outbox.push_back(control);
  flush(link);
}

void ShmBackend::flush(Link& link) {
  for (; !link.outbox.empty(); link.outbox.pop_front()) {
    const Control& control = link.outbox.front();
    std::vector<int> fds;
    if (control.kind == Control::Kind::kRegion) {
      const auto it = std::ranges::find_if(
          regions_, [&](const auto& entry) { return entry.second.number == control.region; });
      if (it == regions_.end()) continue;  // Released before the peer heard of it.
      fds.push_back(it->second.segment->fd());
    }
    const auto sent = sendControl(link.socket->fd(), control, fds);
    if (!sent.ok()) link.gone = true;
    if (!sent.ok() || !*sent) return;
  }
}

void ShmBackend::sleep(std::span<Watch> watches, Deadline until) {
  const auto news = [&] {
    return wakes_.load() != wakesSeen_ || std::ranges::any_of(watches, [](const Watch& watch) {
             return static_cast<RingStream*>(watch.stream)->ready(watch.read, watch.write);
           });
  };
  ownBell().wait(news, std::min<std::chrono::nanoseconds>(options_.spin.here(), until.remaining()),
                 until, slice_.load());
  wakesSeen_ = wakes_.load();
  for (Watch& watch : watches) {
    watch.ready = static_cast<RingStream*>(watch.stream)->ready(watch.read, watch.write);
  }
}

void ShmBackend::wake() {
  wakes_.fetch_add(1);
  ownBell().ring();
}

Result<Mapping> ShmBackend::allocate(std::size_t bytes) {
  COLLA_TRY_ASSIGN(Segment created, Segment::create(bytes));
  const auto segment = std::make_shared<const Segment>(std::move(created));
  const auto memory = segment->bytes();
  const auto release = [segment, owner = owner_](const std::byte* region) {
    const MutexLock lock(owner->mutex);
    if (owner->backend != nullptr) owner->backend->release(region);
  };
  const MutexLock lock(mutex_);
  const std::uint32_t number = nextRegion_++;
  regions_[memory.data()] = {number, segment};
  for (const auto& link : links_) {
    if (link != nullptr && link->up) {
      tell(*link, {Control::Kind::kRegion, number, memory.size()});
    }
  }
  return Mapping{memory.first(bytes),
                 std::shared_ptr<const std::byte>(std::as_const(memory).data(), release)};
}

void ShmBackend::release(const std::byte* region) {
  const MutexLock lock(mutex_);
  const auto it = regions_.find(region);
  for (const auto& link : links_) {
    if (link != nullptr && link->up) tell(*link, {Control::Kind::kRelease, it->second.number, 0});
  }
  regions_.erase(it);
}

Place ShmBackend::find(std::span<const std::byte> data) const {
  const MutexLock lock(mutex_);
  auto it = regions_.upper_bound(data.data());
  if (it == regions_.begin()) return {};
  --it;
  const auto bytes = it->second.segment->bytes();
  const auto offset = static_cast<std::size_t>(data.data() - bytes.data());
  if (offset > bytes.size() || data.size() > bytes.size() - offset) return {};
  return {.region = it->second.number, .offset = offset};
}

Result<Mapping> ShmBackend::map(int peer, Place place, std::size_t bytes, Deadline deadline) {
  while (true) {
    int socket = -1;
    {
      const MutexLock lock(mutex_);
      const auto& link = links_[peer];
      if (link == nullptr || !link->up) {
        return {StatusCode::kInternal,
                fmt::format("no memory is shared with {} yet", options_.peers[peer].name)};
      }
      auto it = link->regions.find(place.region);
      if (it == link->regions.end()) {
        service(*link);
        it = link->regions.find(place.region);
      }
      if (it != link->regions.end()) {
        const auto memory = it->second->bytes();
        if (place.offset > memory.size() || bytes > memory.size() - place.offset) {
          return {StatusCode::kInvalidArgument,
                  fmt::format("{} names memory outside of its region", options_.peers[peer].name),
                  peer};
        }
        return Mapping{memory.subspan(place.offset, bytes), it->second};
      }
      if (const auto why = link->refused.find(place.region); why != link->refused.end()) {
        return why->second.withContext(fmt::format("the memory of {}", options_.peers[peer].name));
      }
      if (link->gone) return lost(peer);
      if (place.region <= link->newest) {
        return {StatusCode::kCancelled,
                fmt::format("{} has given that memory up", options_.peers[peer].name), peer};
      }
      socket = link->socket->fd();
    }
    if (deadline.expired()) {
      return {StatusCode::kTimeout,
              fmt::format("{} did not pass its memory in time", options_.peers[peer].name), peer};
    }
    pollfd waiting{socket, POLLIN, 0};
    ::poll(&waiting, 1, 10);
  }
}

void ShmBackend::notify(std::span<const int> peers) {
  for (const int peer : peers) {
    Doorbell* bell = bells_[peer].load(std::memory_order_acquire);
    if (bell != nullptr) bell->ring();
  }
}

Status ShmBackend::wait(std::span<const int> peers, Ready ready, const void* context,
                        Deadline deadline, std::chrono::nanoseconds& waited) {
  const auto isReady = [&] { return ready(context); };
  std::chrono::nanoseconds spin = options_.spin.here();
  while (true) {
    if (ownBell().wait(isReady, spin, deadline, kLongestSlice, waited)) return {};
    spin = {};
    const MutexLock lock(mutex_);
    for (const int peer : peers) {
      const auto& link = links_[peer];
      if (link == nullptr || !link->up) continue;
      service(*link);
      if (link->gone) return isReady() ? Status() : lost(peer);
    }
    if (deadline.expired()) return {StatusCode::kTimeout, "the time is over"};
  }
}

Status ShmBackend::lost(int peer) const {
  return {StatusCode::kPeerLost,
          fmt::format("{} is gone (connection closed)", options_.peers[peer].name), peer};
}

}  // namespace colla::transport::shm
