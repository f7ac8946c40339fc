// Collectives on two levels that only move bytes. What every host needs goes to it once, in lanes,
// and from there to its ranks through shared memory; what one rank sends to another goes through
// shared memory on their host, and straight between hosts.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "collective/algorithms.h"
#include "collective/arguments.h"
#include "collective/kernels.h"
#include "collective/messages.h"
#include "collective/on_levels.h"
#include "collective/shared.h"

namespace colla::collective {
namespace {

using transport::Place;

// One lane of an allgather. parts[h] is what this lane gets from host h; its own stands there
// already.
Status allgatherLane(GroupCore::Turn& across, std::span<const std::span<std::byte>> parts,
                     std::span<std::byte> all, bool everybodyBrings) {
  const std::size_t part = parts.front().size();
  const bool even = everybodyBrings && std::ranges::all_of(parts, [&](const auto& each) {
                      return each.size() == part;
                    });
  if (even) return allgatherMessages(across, all, part);
  const std::span<std::byte> own = parts[across.rank()];
  std::vector<std::span<const std::byte>> outgoing(across.size());
  std::vector<std::span<std::byte>> incoming(parts.begin(), parts.end());
  for (int host = 0; host < across.size(); ++host) {
    if (own.data() != nullptr) outgoing[host] = present<const std::byte>(own);
  }
  return exchangeMessages(across, outgoing, incoming);
}

// The offsets of this host's parts, one behind the other.
std::vector<std::size_t> packed(std::span<const int> ranks, std::span<const std::size_t> offsets) {
  std::vector<std::size_t> starts = {0};
  for (const int rank : ranks) {
    starts.push_back(starts.back() + offsets[rank + 1] - offsets[rank]);
  }
  return starts;
}

}  // namespace

Status meetLevels(GroupCore::Turn& turn) {
  Board* const board = turn.group.levels()->board();
  if (board == nullptr) return {};
  GroupCore::Turn inside = turn.inside();
  return board->arrive(inside.sequence, inside.call, inside.deadline);
}

// The first ranks of the hosts know when all hosts have met.
Status barrierLevels(GroupCore::Turn& turn) {
  Levels& levels = *turn.group.levels();
  COLLA_TRY(meetLevels(turn));
  if (levels.takes(0)) {
    GroupCore::Turn across = turn.across(0);
    COLLA_TRY(barrierMessages(across));
  }
  if (levels.board() == nullptr) return {};
  levels.board()->advance();
  return levels.inside().rank == 0 ? Status() : levels.board()->awaitAll(turn.deadline);
}

// First to all ranks of the root's host. Each rail brings its part of them to all other hosts,
// whose ranks then read all parts from each other.
Status broadcastLevels(GroupCore::Turn& turn, std::span<std::byte> data, int root) {
  Levels& levels = *turn.group.levels();
  const Topology& topology = levels.topology();
  const bool here = topology.hostOf(root) == levels.host();
  const int rails = data.size() <= kSmallBytes ? 1 : levels.rails();
  const auto partOf = [&](int local) {
    return local < rails ? chunkOf(data.size(), rails, local) : Range{};
  };
  if (here && levels.board() != nullptr) {
    GroupCore::Turn inside = turn.inside();
    const int local = topology.localRank(root);
    const bool mine = inside.rank() == local;
    COLLA_TRY(readSources(
        inside, mine ? data : std::span<std::byte>(), data.size(),
        [&](int rank) { return rank == local ? data.size() : 0; },
        [&](std::size_t begin, std::size_t end, std::span<const std::byte* const> at) {
          if (!mine) copyBytes(data.data() + begin, at[local], end - begin);
        }));
  } else {
    COLLA_TRY(meetLevels(turn));
  }
  const int self = levels.inside().rank;
  const Range own = partOf(self);
  if (self < rails) {
    GroupCore::Turn across = turn.across(self);
    COLLA_TRY(
        broadcastMessages(across, data.subspan(own.begin, own.size()), topology.hostOf(root)));
  }
  if (here || levels.board() == nullptr) return {};
  GroupCore::Turn inside = turn.inside();
  return readSources(
      inside, data.subspan(own.begin, own.size()), partOf(0).size(),
      [&](int local) { return partOf(local).size(); },
      [&](std::size_t begin, std::size_t end, std::span<const std::byte* const> at) {
        for (int local = 0; local < inside.size(); ++local) {
          const Range part = partOf(local);
          const Range seen = within(0, part.size(), begin, end);
          if (local == self || seen.size() == 0) continue;
          copyBytes(data.data() + part.begin + seen.begin, at[local], seen.size());
        }
      });
}

// Rank L of each host sends its part in lane L. What came in the lanes of a rank lies one behind
// the other, where its neighbours read it.
Status allgatherLevels(GroupCore::Turn& turn, std::span<const std::byte> data,
                       std::span<std::byte> result, std::span<const std::size_t> offsets) {
  Levels& levels = *turn.group.levels();
  const Topology& topology = levels.topology();
  COLLA_TRY(meetLevels(turn));

  // The ranks whose parts come in the lanes of a local rank, by lane and host.
  const auto carried = [&](int local, const auto& visit) {
    for (int lane = local; lane < levels.lanes(); lane += levels.inside().size()) {
      for (int host = 0; host < topology.hosts(); ++host) {
        const auto ranks = topology.ranksOn(host);
        const bool has = lane < static_cast<int>(ranks.size());
        visit(lane, host, has ? ranks[lane] : -1);
      }
    }
  };
  const auto lengthOf = [&](int rank) { return offsets[rank + 1] - offsets[rank]; };
  const auto lengthIn = [&](int local) {
    std::size_t bytes = 0;
    carried(local, [&](int, int, int rank) { bytes += rank < 0 ? 0 : lengthOf(rank); });
    return bytes;
  };
  const int self = levels.inside().rank;
  const std::size_t bytes = lengthIn(self);
  const std::span<std::byte> all(levels.sums(bytes), bytes);
  std::vector<std::span<std::byte>> parts;  // Of one lane after the other, by host.
  bool everybodyBrings = true;
  std::size_t next = 0, laneBegin = 0;
  Status status;
  carried(self, [&](int lane, int host, int rank) {
    if (!status.ok()) return;
    if (rank < 0) {
      parts.emplace_back();
      everybodyBrings = false;
    } else {
      parts.push_back(present(all.subspan(next, lengthOf(rank))));
      next += lengthOf(rank);
      if (rank == turn.rank() && !data.empty()) {
        std::memcpy(parts.back().data(), data.data(), data.size());
      }
    }
    if (host + 1 < topology.hosts()) return;
    GroupCore::Turn across = turn.across(lane, static_cast<std::uint32_t>(lane));
    status =
        allgatherLane(across, parts, all.subspan(laneBegin, next - laneBegin), everybodyBrings);
    parts.clear();
    everybodyBrings = true;
    laneBegin = next;
  });
  COLLA_TRY(status);

  // Copies what is in sight of what a local rank carried.
  const auto copyOut = [&](int local, std::size_t begin, std::size_t end, const std::byte* at) {
    std::size_t start = 0;
    carried(local, [&](int, int, int rank) {
      if (rank < 0) return;
      const Range seen = within(start, start + lengthOf(rank), begin, end);
      if (seen.size() > 0) {
        copyBytes(result.data() + offsets[rank] + (seen.begin - start), at + (seen.begin - begin),
                  seen.size());
      }
      start += lengthOf(rank);
    });
  };
  if (levels.board() == nullptr) {
    copyOut(0, 0, bytes, all.data());
    return {};
  }
  GroupCore::Turn inside = turn.inside();
  std::size_t largest = 0;
  for (int local = 0; local < inside.size(); ++local) largest = std::max(largest, lengthIn(local));
  return readSources(inside, all, largest, lengthIn,
                     [&](std::size_t begin, std::size_t end, std::span<const std::byte* const> at) {
                       for (int local = 0; local < inside.size(); ++local) {
                         copyOut(local, begin, std::min(end, lengthIn(local)), at[local]);
                       }
                     });
}

Status alltoallLevels(GroupCore::Turn& turn, std::span<const std::byte> data,
                      std::span<const std::size_t> sends, std::span<std::byte> result,
                      std::span<const std::size_t> expects) {
  Levels& levels = *turn.group.levels();
  const auto here = levels.ranksHere();
  const int self = levels.inside().rank;
  std::vector<std::span<const std::byte>> outgoing(turn.size());
  std::vector<std::span<std::byte>> incoming(turn.size());
  for (int rank = 0; rank < turn.size(); ++rank) {
    outgoing[rank] = present(data.subspan(sends[rank], sends[rank + 1] - sends[rank]));
    incoming[rank] = present(result.subspan(expects[rank], expects[rank + 1] - expects[rank]));
  }
  if (Board* const board = levels.board()) {
    const auto starts = packed(here, sends), ends = packed(here, expects);
    const auto local = std::make_unique_for_overwrite<std::byte[]>(starts.back());
    for (std::size_t i = 0; i < here.size(); ++i) {
      std::ranges::copy(outgoing[here[i]], local.get() + starts[i]);
    }
    GroupCore::Turn inside = turn.inside();
    std::ranges::copy(starts, board->sends(self, inside.sequence).begin());
    std::ranges::copy(ends, board->expects(self, inside.sequence).begin());
    COLLA_TRY(readSources(
        inside, {local.get(), starts.back()}, ~std::size_t{0},
        [&](int other) { return board->sends(other, inside.sequence)[inside.size()]; },
        [&](std::size_t begin, std::size_t end, std::span<const std::byte* const> at) {
          for (int other = 0; other < inside.size(); ++other) {
            const auto theirs = board->sends(other, inside.sequence);
            const Range seen = within(theirs[self], theirs[self + 1], begin, end);
            if (seen.size() == 0) continue;
            copyBytes(incoming[here[other]].data() + (seen.begin - theirs[self]),
                      at[other] + (seen.begin - begin), seen.size());
          }
        },
        [&] { return comparePosted(inside); }));
    for (const int rank : here) {
      outgoing[rank] = {};
      incoming[rank] = {};
    }
  }
  return exchangeMessages(turn, outgoing, incoming);
}

}  // namespace colla::collective
