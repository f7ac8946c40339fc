#include "transport/inproc/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "transport/inproc/backend.h"
#include "transport/ring_stream.h"

namespace colla::transport::inproc {
namespace {

constexpr std::uint32_t kEverything = 1;  // The one region there is.

}  // namespace

Result<Mapping> InprocMemory::allocate(std::size_t bytes) {
  auto region = allocatePages(bytes);
  if (region == nullptr) {
    return {StatusCode::kNoMemory, fmt::format("no memory for a region of {} bytes", bytes)};
  }
  std::byte* const begin = region.get();
  const MutexLock lock(board_.mutex);
  std::erase_if(board_.regions, [](const auto& entry) { return entry.second.memory.expired(); });
  board_.regions[begin] = {bytes, region};
  return Mapping{std::span(begin, bytes), std::move(region)};
}

Place InprocMemory::find(std::span<const std::byte> data) const {
  return {.region = kEverything, .offset = reinterpret_cast<std::uintptr_t>(data.data())};
}

Result<Mapping> InprocMemory::map(int peer, Place place, std::size_t bytes, Deadline /*deadline*/) {
  const bool known = peer >= 0 && static_cast<std::size_t>(peer) < board_.seats->size();
  if (!known || place.region != kEverything) {
    return {StatusCode::kInvalidArgument,
            fmt::format("peer {} has no memory region {}", peer, place.region)};
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): find() made the offset of this address.
  Mapping mapping{std::span(reinterpret_cast<std::byte*>(place.offset), bytes), nullptr};
  const MutexLock lock(board_.mutex);
  auto it = board_.regions.upper_bound(mapping.bytes.data());
  if (it != board_.regions.begin() && mapping.bytes.data() < (--it)->first + it->second.bytes) {
    mapping.keep = it->second.memory.lock();
  }
  return mapping;
}

void InprocMemory::notify(std::span<const int> peers) {
  for (const int peer : peers) board_.seat(peer).bell.ring();
}

Status InprocMemory::wait(std::span<const int> peers, Ready ready, const void* context,
                          Deadline deadline, std::chrono::nanoseconds& waited) {
  const auto lost = [&] {
    return std::ranges::find_if(
        peers, [&](int peer) { return board_.seat(peer).gone.load(std::memory_order_acquire); });
  };
  const auto over = [&] { return ready(context) || lost() != peers.end(); };

  Doorbell& bell = board_.seat(options_.self).bell;
  std::chrono::nanoseconds spin = options_.spin.here();
  constexpr std::chrono::nanoseconds kLongest = std::chrono::hours(24);
  while (!bell.wait(over, spin, deadline, kLongest, waited) && !deadline.expired()) spin = {};

  // A peer may have stored the last word before it left: `gone` is looked at before `ready`.
  const auto who = lost();
  if (ready(context)) return {};
  if (who != peers.end()) {
    const Peer& peer = options_.peers[static_cast<std::size_t>(*who)];
    return {StatusCode::kPeerLost, peer.name + " is gone", *who};
  }
  return {StatusCode::kTimeout, "the deadline passed"};
}

}  // namespace colla::transport::inproc
