// The public collectives that only move bytes: each checks its arguments, says what it is, and
// goes through shared memory where there is some, otherwise by messages.
#include <cstring>
#include <numeric>
#include <vector>

#include "base/crc32c.h"
#include "colla/collectives.h"
#include "collective/algorithms.h"
#include "collective/arguments.h"
#include "collective/call.h"
#include "collective/on_levels.h"
#include "collective/shared.h"

namespace colla {
namespace {

using collective::CallArguments;
using collective::checkCount;
using collective::checkRank;
using collective::checkType;
using collective::copyBytes;
using collective::first;
using collective::Operation;
using collective::present;
using collective::Range;
using collective::within;
using Turn = GroupCore::Turn;

// Where the parts of the given sizes start, in bytes; one more for the end.
std::vector<std::size_t> offsetsOf(std::span<const std::size_t> counts, DataType type) {
  std::vector<std::size_t> offsets(counts.size() + 1, 0);
  std::partial_sum(counts.begin(), counts.end(), offsets.begin() + 1);
  for (std::size_t& offset : offsets) offset *= sizeOf(type);
  return offsets;
}

// The same for parts of equal size, in bytes.
std::vector<std::size_t> equalParts(int parts, std::size_t bytes) {
  std::vector<std::size_t> offsets(parts + 1, bytes);
  std::exclusive_scan(offsets.begin(), offsets.end(), offsets.begin(), std::size_t{0});
  return offsets;
}

}  // namespace

Status barrier(Group& group, const CollectiveOptions& options) {
  GroupCore& core = group.core();
  return core.run({.operation = Operation::kBarrier}, options.timeout, {}, [&](Turn& turn) {
    if (core.levels() != nullptr) return collective::barrierLevels(turn);
    if (core.board() == nullptr) return collective::barrierMessages(turn);
    return core.board()->arrive(turn.sequence, turn.call, turn.deadline);
  });
}

Status broadcast(Group& group, Buffer data, int root, const CollectiveOptions& options) {
  GroupCore& core = group.core();
  const CallArguments arguments{
      .operation = Operation::kBroadcast, .type = data.type(), .root = root, .count = data.count()};
  const Status refusal = checkRank(core, root, "root");
  return core.run(arguments, options.timeout, refusal, [&](Turn& turn) {
    if (core.levels() != nullptr) return collective::broadcastLevels(turn, data.bytes(), root);
    if (core.board() == nullptr) return collective::broadcastMessages(turn, data.bytes(), root);
    const bool mine = core.rank() == root;
    const std::size_t bytes = data.bytes().size();
    return collective::readSources(
        turn, mine ? data.bytes() : std::span<std::byte>(), bytes,
        [&](int rank) { return rank == root ? bytes : 0; },
        [&](std::size_t begin, std::size_t end, std::span<const std::byte* const> at) {
          if (!mine) copyBytes(data.data() + begin, at[root], end - begin);
        });
  });
}

Status allgather(Group& group, ConstBuffer data, Buffer result, const CollectiveOptions& options) {
  GroupCore& core = group.core();
  const CallArguments arguments{
      .operation = Operation::kAllgather, .type = data.type(), .count = data.count()};
  const Status refusal = first(
      {checkType(data, result), checkCount("result", result.count(), data.count() * core.size())});
  return core.run(arguments, options.timeout, refusal, [&](Turn& turn) -> Status {
    const std::size_t part = data.bytes().size();
    if (core.levels() != nullptr) {
      return collective::allgatherLevels(turn, data.bytes(), result.bytes(),
                                         equalParts(core.size(), part));
    }
    if (core.board() == nullptr) {
      std::byte* const own = result.data() + core.rank() * part;
      if (part > 0 && own != data.data()) std::memmove(own, data.data(), part);
      return collective::allgatherMessages(turn, result.bytes(), part);
    }
    return collective::readSources(
        turn, data.bytes(), part, [&](int) { return part; },
        [&](std::size_t begin, std::size_t end, std::span<const std::byte* const> at) {
          for (int rank = 0; rank < core.size(); ++rank) {
            std::byte* const out = result.data() + rank * part + begin;
            if (out != at[rank]) copyBytes(out, at[rank], end - begin);
          }
        });
  });
}

Status allgatherv(Group& group, ConstBuffer data, Buffer result,
                  std::span<const std::size_t> counts, const CollectiveOptions& options) {
  GroupCore& core = group.core();
  Status refusal =
      first({checkType(data, result), checkCount("counts", counts.size(), core.size())});
  if (refusal.ok()) {
    const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    refusal = first({checkCount("data", data.count(), counts[core.rank()]),
                     checkCount("result", result.count(), total)});
  }
  const CallArguments arguments{.operation = Operation::kAllgatherv,
                                .type = data.type(),
                                .layout = crc32c(std::as_bytes(counts)),
                                .count = result.count()};
  return core.run(arguments, options.timeout, refusal, [&](Turn& turn) {
    const auto offsets = offsetsOf(counts, data.type());
    if (core.levels() != nullptr) {
      return collective::allgatherLevels(turn, data.bytes(), result.bytes(), offsets);
    }
    const auto length = [&](int rank) { return offsets[rank + 1] - offsets[rank]; };
    if (core.board() == nullptr) {
      const std::vector<std::span<const std::byte>> outgoing(core.size(), present(data.bytes()));
      std::vector<std::span<std::byte>> incoming(core.size());
      for (int rank = 0; rank < core.size(); ++rank) {
        incoming[rank] = present(result.bytes().subspan(offsets[rank], length(rank)));
      }
      return collective::exchangeMessages(turn, outgoing, incoming);
    }
    std::size_t largest = 0;
    for (int rank = 0; rank < core.size(); ++rank) largest = std::max(largest, length(rank));
    return collective::readSources(
        turn, data.bytes(), largest, length,
        [&](std::size_t begin, std::size_t end, std::span<const std::byte* const> at) {
          for (int rank = 0; rank < core.size(); ++rank) {
            const Range seen = within(0, length(rank), begin, end);
            std::byte* const out = result.data() + offsets[rank] + seen.begin;
            if (out != at[rank]) copyBytes(out, at[rank], seen.size());
          }
        });
  });
}

Status alltoall(Group& group, ConstBuffer data, Buffer result, const CollectiveOptions& options) {
  GroupCore& core = group.core();
  const CallArguments arguments{
      .operation = Operation::kAlltoall, .type = data.type(), .count = data.count()};
  const Status refusal =
      first({checkType(data, result), checkCount("result", result.count(), data.count()),
             data.count() % core.size() == 0
                 ? Status()
                 : invalid("data holds {} elements, which {} ranks can't share evenly",
                           data.count(), core.size()),
             data.count() == 0 || data.data() != result.data()
                 ? Status()
                 : invalid("data and result are the same memory")});
  return core.run(arguments, options.timeout, refusal, [&](Turn& turn) -> Status {
    const std::size_t part = data.bytes().size() / core.size();
    if (core.levels() != nullptr) {
      const auto offsets = equalParts(core.size(), part);
      return collective::alltoallLevels(turn, data.bytes(), offsets, result.bytes(), offsets);
    }
    if (core.board() == nullptr) {
      std::vector<std::span<const std::byte>> outgoing(core.size());
      std::vector<std::span<std::byte>> incoming(core.size());
      for (int rank = 0; rank < core.size(); ++rank) {
        outgoing[rank] = present(data.bytes().subspan(rank * part, part));
        incoming[rank] = present(result.bytes().subspan(rank * part, part));
      }
      return collective::exchangeMessages(turn, outgoing, incoming);
    }
    const std::size_t from = part * core.rank();
    return collective::readSources(
        turn, data.bytes(), data.bytes().size(), [&](int) { return data.bytes().size(); },
        [&](std::size_t begin, std::size_t end, std::span<const std::byte* const> at) {
          const Range seen = within(from, from + part, begin, end);
          for (int rank = 0; rank < core.size(); ++rank) {
            copyBytes(result.data() + rank * part + (seen.begin - from),
                      at[rank] + (seen.begin - begin), seen.size());
          }
        });
  });
}

Status alltoallv(Group& group, ConstBuffer data, std::span<const std::size_t> sendCounts,
                 Buffer result, std::span<const std::size_t> recvCounts,
                 const CollectiveOptions& options) {
  GroupCore& core = group.core();
  const auto total = [](std::span<const std::size_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  };
  const auto own = [&](std::span<const std::size_t> counts) {
    const auto rank = static_cast<std::size_t>(core.rank());
    return rank < counts.size() ? counts[rank] : 0;
  };
  const Status refusal =
      first({checkType(data, result), checkCount("sendCounts", sendCounts.size(), core.size()),
             checkCount("recvCounts", recvCounts.size(), core.size()),
             checkCount("data", data.count(), total(sendCounts)),
             checkCount("result", result.count(), total(recvCounts)),
             own(sendCounts) == own(recvCounts)
                 ? Status()
                 : invalid("this rank sends itself {} elements, but expects {}", own(sendCounts),
                           own(recvCounts)),
             data.count() == 0 || data.data() != result.data()
                 ? Status()
                 : invalid("data and result are the same memory")});
  const CallArguments arguments{.operation = Operation::kAlltoallv, .type = data.type()};
  return core.run(arguments, options.timeout, refusal, [&](Turn& turn) -> Status {
    const auto sends = offsetsOf(sendCounts, data.type());
    const auto recvs = offsetsOf(recvCounts, data.type());
    if (core.levels() != nullptr) {
      COLLA_TRY(collective::alltoallLevels(turn, data.bytes(), sends, result.bytes(), recvs));
      return collective::barrierMessages(turn, /*firstStep=*/1);  // As below.
    }
    if (core.board() == nullptr) {
      std::vector<std::span<const std::byte>> outgoing(core.size());
      std::vector<std::span<std::byte>> incoming(core.size());
      for (int rank = 0; rank < core.size(); ++rank) {
        outgoing[rank] = present(data.bytes().subspan(sends[rank], sends[rank + 1] - sends[rank]));
        incoming[rank] =
            present(result.bytes().subspan(recvs[rank], recvs[rank + 1] - recvs[rank]));
      }
      COLLA_TRY(collective::exchangeMessages(turn, outgoing, incoming));
      // Who has sent and got all of its own would not hear of others that don't fit, or of a small
      // message of its own that doesn't.
      return collective::barrierMessages(turn, /*firstStep=*/1);
    }
    // Everybody posts where its parts start; a reader finds its own by its number.
    collective::Board& board = *core.board();
    std::ranges::copy(sends, board.sends(core.rank(), turn.sequence).begin());
    std::ranges::copy(recvs, board.expects(core.rank(), turn.sequence).begin());
    return collective::readSources(
        turn, data.bytes(), ~std::size_t{0},
        [&](int rank) { return board.sends(rank, turn.sequence)[core.size()]; },
        [&](std::size_t begin, std::size_t end, std::span<const std::byte* const> at) {
          for (int rank = 0; rank < core.size(); ++rank) {
            const auto theirs = board.sends(rank, turn.sequence);
            const Range seen = within(theirs[core.rank()], theirs[core.rank() + 1], begin, end);
            copyBytes(result.data() + recvs[rank] + (seen.begin - theirs[core.rank()]),
                      at[rank] + (seen.begin - begin), seen.size());
          }
        },
        [&] { return collective::comparePosted(turn); });
  });
}

Status gather(Group& group, ConstBuffer data, Buffer result, int root,
              const CollectiveOptions& options) {
  GroupCore& core = group.core();
  const bool mine = core.rank() == root;
  const CallArguments arguments{
      .operation = Operation::kGather, .type = data.type(), .root = root, .count = data.count()};
  const Status refusal =
      first({checkRank(core, root, "root"),
             mine ? first({checkType(data, result),
                           checkCount("result", result.count(), data.count() * core.size())})
                  : Status()});
  return core.run(arguments, options.timeout, refusal, [&](Turn& turn) -> Status {
    const std::size_t part = data.bytes().size();
    if (core.levels() != nullptr) COLLA_TRY(collective::meetLevels(turn));
    if (core.board() == nullptr) {
      std::vector<std::span<const std::byte>> outgoing(core.size());
      std::vector<std::span<std::byte>> incoming(core.size());
      outgoing[root] = present(data.bytes());
      for (int rank = 0; mine && rank < core.size(); ++rank) {
        incoming[rank] = present(result.bytes().subspan(rank * part, part));
      }
      return collective::exchangeMessages(turn, outgoing, incoming);
    }
    return collective::readSources(
        turn, data.bytes(), part, [&](int) { return part; },
        [&](std::size_t begin, std::size_t end, std::span<const std::byte* const> at) {
          for (int rank = 0; mine && rank < core.size(); ++rank) {
            std::byte* const out = result.data() + rank * part + begin;
            if (out != at[rank]) copyBytes(out, at[rank], end - begin);
          }
        });
  });
}

Status scatter(Group& group, ConstBuffer data, Buffer result, int root,
               const CollectiveOptions& options) {
  GroupCore& core = group.core();
  const bool mine = core.rank() == root;
  const CallArguments arguments{.operation = Operation::kScatter,
                                .type = result.type(),
                                .root = root,
                                .count = result.count()};
  const Status refusal =
      first({checkRank(core, root, "root"),
             mine ? first({checkType(data, result),
                           checkCount("data", data.count(), result.count() * core.size())})
                  : Status()});
  return core.run(arguments, options.timeout, refusal, [&](Turn& turn) -> Status {
    const std::size_t part = result.bytes().size();
    if (core.levels() != nullptr) COLLA_TRY(collective::meetLevels(turn));
    if (core.board() == nullptr) {
      std::vector<std::span<const std::byte>> outgoing(core.size());
      std::vector<std::span<std::byte>> incoming(core.size());
      incoming[root] = present(result.bytes());
      for (int rank = 0; mine && rank < core.size(); ++rank) {
        outgoing[rank] = present(data.bytes().subspan(rank * part, part));
      }
      return collective::exchangeMessages(turn, outgoing, incoming);
    }
    const std::size_t from = part * core.rank();
    const std::size_t all = part * core.size();
    return collective::readSources(
        turn, mine ? data.bytes() : std::span<const std::byte>(), all,
        [&](int rank) { return rank == root ? all : 0; },
        [&](std::size_t begin, std::size_t end, std::span<const std::byte* const> at) {
          const Range seen = within(from, from + part, begin, end);
          std::byte* const out = result.data() + (seen.begin - from);
          const std::byte* const in = at[root] + (seen.begin - begin);
          if (out != in) copyBytes(out, in, seen.size());
        });
  });
}

}  // namespace colla
