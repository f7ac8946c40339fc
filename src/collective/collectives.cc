// The public collectives: each checks its arguments, says what it is, and picks a way. Where the
// ranks share memory that is always the shared one; otherwise messages.
#include "colla/collectives.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "base/crc32c.h"
#include "collective/algorithms.h"
#include "collective/fold.h"
#include "collective/kernels.h"
#include "collective/messages.h"
#include "collective/shared.h"

namespace colla {
namespace {

using collective::CallArguments;
using collective::copyBytes;
using collective::kFewRanks;
using collective::Operation;
using collective::present;
using collective::Range;
using Turn = GroupCore::Turn;

template <typename... Args>
Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return {StatusCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...)};
}

// The first of several checks that failed.
Status first(std::initializer_list<Status> checks) {
  for (const Status& status : checks) {
    if (!status.ok()) return status;
  }
  return {};
}

Status checkRank(const GroupCore& group, int rank, std::string_view what) {
  if (rank >= 0 && rank < group.size()) return {};
  return invalid("{} {} is not one of the group's ranks 0 to {}", what, rank, group.size() - 1);
}

Status checkOp(DataType type, ReduceOp op) {
  if (collective::supported(type, op)) return {};
  return invalid("{} is not defined for {}: sum, and divide afterwards", toString(op),
                 toString(type));
}

Status checkCount(std::string_view what, std::size_t count, std::size_t wanted) {
  if (count == wanted) return {};
  return invalid("{} holds {} elements, but needs {}", what, count, wanted);
}

Status checkType(ConstBuffer data, ConstBuffer result) {
  if (data.type() == result.type()) return {};
  return invalid("data is {}, result is {}", toString(data.type()), toString(result.type()));
}

// Where the parts of the given sizes start, in bytes; one more for the end.
std::vector<std::size_t> offsetsOf(std::span<const std::size_t> counts, DataType type) {
  std::vector<std::size_t> offsets(counts.size() + 1, 0);
  std::partial_sum(counts.begin(), counts.end(), offsets.begin() + 1);
  for (std::size_t& offset : offsets) offset *= sizeOf(type);
  return offsets;
}

// The part of [from, to) that lies in the window [begin, end).
Range within(std::size_t from, std::size_t to, std::size_t begin, std::size_t end) {
  const std::size_t low = std::max(from, begin);
  return {low, std::max(low, std::min(to, end))};
}

constexpr std::size_t kSmallBytes = 32 << 10;

Algorithm choose(GroupCore& group, const collective::SumTree& tree, std::size_t bytes) {
  if (group.board() != nullptr) return Algorithm::kShared;
  if (bytes <= kSmallBytes) {
    return group.size() <= kFewRanks ? Algorithm::kFlat : Algorithm::kTree;
  }
  return tree.complete() && group.size() > kFewRanks ? Algorithm::kHalving : Algorithm::kDirect;
}

// Where the wanted one can't: the direct algorithm, which can do everything.
Algorithm possible(GroupCore& group, const collective::SumTree& tree, Algorithm wanted) {
  if (group.size() == 1) return Algorithm::kFlat;
  if (wanted == Algorithm::kShared && group.board() == nullptr) return Algorithm::kDirect;
  if (wanted == Algorithm::kHalving && !tree.complete()) return Algorithm::kDirect;
  return wanted;
}

Status runAllreduce(const collective::Reduction& reduction, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kShared:
      return collective::allreduceShared(reduction);
    case Algorithm::kFlat:
      return collective::allreduceFlat(reduction);
    case Algorithm::kHalving:
      return collective::allreduceHalving(reduction);
    case Algorithm::kTree:
      return collective::allreduceTree(reduction);
    case Algorithm::kRing:
      return collective::allreduceRing(reduction);
    case Algorithm::kDirect:
    case Algorithm::kAuto:
      break;
  }
  return collective::allreduceDirect(reduction);
}

Status allreduceOver(GroupCore& group, const collective::SumTree& tree,
                     std::span<const ConstBuffer> partials, Buffer result,
                     const AllreduceOptions& options, Status refusal) {
  const Algorithm named =
      options.algorithm == Algorithm::kAuto ? group.options().algorithm : options.algorithm;
  const CallArguments arguments{.operation = Operation::kAllreduce,
                                .type = result.type(),
                                .op = options.op,
                                .algorithm = named,
                                .layout = tree.layout(),
                                .count = result.count()};
  refusal = first({refusal, checkOp(result.type(), options.op)});
  return group.run(arguments, options.timeout, refusal, [&](Turn& turn) -> Status {
    const Algorithm algorithm =
        possible(group, tree,
                 named == Algorithm::kAuto ? choose(group, tree, result.bytes().size()) : named);
    // Ranks that share memory look for each other's calls there, whatever the algorithm.
    if (group.board() != nullptr && algorithm != Algorithm::kShared) {
      COLLA_TRY(group.board()->arrive(turn.sequence, turn.call, turn.deadline));
    }
    return runAllreduce({turn, tree, partials, result, options.op}, algorithm);
  });
}

}  // namespace

Status barrier(Group& group, const CollectiveOptions& options) {
  GroupCore& core = group.core();
  return core.run({.operation = Operation::kBarrier}, options.timeout, {}, [&](Turn& turn) {
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
    if (core.board() == nullptr) return collective::broadcastMessages(turn, data.bytes(), root);
    const bool mine = core.rank() == root;
    const std::size_t bytes = data.bytes().size();
    return collective::showAll(
        turn, mine ? data.bytes() : std::span<std::byte>(), bytes,
        [&](int rank) { return rank == root ? bytes : 0; },
        [&](std::size_t begin, std::size_t end, std::span<const std::byte* const> at) {
          if (!mine) copyBytes(data.data() + begin, at[root], end - begin);
        });
  });
}

Status allreduce(Group& group, Buffer data, const AllreduceOptions& options) {
  const ConstBuffer partial = data;
  return allreduceOver(group.core(), group.core().tree(), std::span(&partial, 1), data, options,
                       {});
}

Status allreduce(Group& group, const SliceMap& map, std::span<const ConstBuffer> partials,
                 Buffer result, const AllreduceOptions& options) {
  GroupCore& core = group.core();
  if (map.workers() != core.size()) {
    return allreduceOver(core, core.tree(), partials, result, options,
                         invalid("the slices are mapped to {} workers, but the group has {} ranks",
                                 map.workers(), core.size()));
  }
  const auto tree = collective::SumTree::of(map);
  Status refusal = checkCount("partials", partials.size(), tree.leavesOf(core.rank()));
  for (const ConstBuffer& partial : partials) {
    refusal = first({refusal, checkType(partial, result),
                     checkCount("a partial sum", partial.count(), result.count())});
  }
  return allreduceOver(core, tree, partials, result, options, refusal);
}

Status reduce(Group& group, ConstBuffer data, Buffer result, int root,
              const ReduceOptions& options) {
  GroupCore& core = group.core();
  const bool mine = core.rank() == root;
  const CallArguments arguments{.operation = Operation::kReduce,
                                .type = data.type(),
                                .op = options.op,
                                .root = root,
                                .count = data.count()};
  const Status refusal = first(
      {checkRank(core, root, "root"), checkOp(data.type(), options.op),
       mine ? first({checkType(data, result), checkCount("result", result.count(), data.count())})
            : Status()});
  return core.run(arguments, options.timeout, refusal, [&](Turn& turn) -> Status {
    const std::size_t bytes = data.bytes().size();
    const std::size_t elementSize = sizeOf(data.type());
    if (core.board() != nullptr) {
      const collective::Folder fold(core.tree(), data.type(), options.op);
      return collective::showAll(
          turn, data.bytes(), bytes, [&](int) { return bytes; },
          [&](std::size_t begin, std::size_t end, std::span<const std::byte* const> at) {
            if (!mine) return;
            std::byte* const out = result.data() + begin;
            fold(at, std::span(&out, 1), (end - begin) / elementSize);
          });
    }
    // The direct way, with the folded chunks going to the root alone.
    const std::vector<Range> ranges = collective::chunksOf(bytes, core.size());
    const Range own = ranges[core.rank()];
    const auto chunk = std::make_unique_for_overwrite<std::byte[]>(own.size());
    COLLA_TRY(collective::reduceDirect(turn, core.tree(), std::span(&data, 1), options.op, ranges,
                                       chunk.get(), [](Range) {}));
    collective::Messages messages(turn);
    constexpr std::uint32_t kChunkStep = 1U << 31;
    if (mine) {
      for (int rank = 0; rank < core.size(); ++rank) {
        if (rank != root) messages.recv(rank, kChunkStep, bytesOf(result, ranges[rank]));
      }
      std::copy_n(chunk.get(), own.size(), result.data() + own.begin);
    } else {
      messages.send(root, kChunkStep, {chunk.get(), own.size()});
    }
    return messages.wait();
  });
}

Status reduceScatter(Group& group, ConstBuffer data, Buffer result, const ReduceOptions& options) {
  GroupCore& core = group.core();
  const CallArguments arguments{.operation = Operation::kReduceScatter,
                                .type = data.type(),
                                .op = options.op,
                                .count = data.count()};
  const Status refusal = first({checkOp(data.type(), options.op), checkType(data, result),
                                checkCount("data", data.count(), result.count() * core.size())});
  return core.run(arguments, options.timeout, refusal, [&](Turn& turn) {
    const std::size_t part = result.bytes().size();
    if (core.board() != nullptr) {
      const collective::Folder fold(core.tree(), data.type(), options.op);
      const std::size_t from = part * core.rank();
      std::vector<const std::byte*> leaves(core.size());
      return collective::showAll(
          turn, data.bytes(), data.bytes().size(), [&](int) { return data.bytes().size(); },
          [&](std::size_t begin, std::size_t end, std::span<const std::byte* const> at) {
            const Range seen = within(from, from + part, begin, end);
            for (int rank = 0; rank < core.size(); ++rank) {
              leaves[rank] = at[rank] + (seen.begin - begin);
            }
            std::byte* const out = result.data() + (seen.begin - from);
            if (seen.size() > 0)
              fold(leaves, std::span(&out, 1), seen.size() / sizeOf(data.type()));
          });
    }
    std::vector<Range> ranges(core.size());
    for (int rank = 0; rank < core.size(); ++rank) ranges[rank] = {rank * part, (rank + 1) * part};
    return collective::reduceDirect(turn, core.tree(), std::span(&data, 1), options.op, ranges,
                                    result.data(), [](Range) {});
  });
}

Status allgather(Group& group, ConstBuffer data, Buffer result, const CollectiveOptions& options) {
  GroupCore& core = group.core();
  const CallArguments arguments{
      .operation = Operation::kAllgather, .type = data.type(), .count = data.count()};
  const Status refusal = first(
      {checkType(data, result), checkCount("result", result.count(), data.count() * core.size())});
  return core.run(arguments, options.timeout, refusal, [&](Turn& turn) {
    const std::size_t part = data.bytes().size();
    if (core.board() == nullptr) {
      std::byte* const own = result.data() + core.rank() * part;
      if (part > 0 && own != data.data()) std::memmove(own, data.data(), part);
      return collective::allgatherMessages(turn, result.bytes(), part);
    }
    return collective::showAll(
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
    return collective::showAll(
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
  return core.run(arguments, options.timeout, refusal, [&](Turn& turn) {
    const std::size_t part = data.bytes().size() / core.size();
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
    return collective::showAll(
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
  const Status refusal =
      first({checkType(data, result), checkCount("sendCounts", sendCounts.size(), core.size()),
             checkCount("recvCounts", recvCounts.size(), core.size()),
             checkCount("data", data.count(), total(sendCounts)),
             checkCount("result", result.count(), total(recvCounts)),
             data.count() == 0 || data.data() != result.data()
                 ? Status()
                 : invalid("data and result are the same memory")});
  const CallArguments arguments{.operation = Operation::kAlltoallv, .type = data.type()};
  return core.run(arguments, options.timeout, refusal, [&](Turn& turn) -> Status {
    const auto sends = offsetsOf(sendCounts, data.type());
    const auto recvs = offsetsOf(recvCounts, data.type());
    if (core.board() == nullptr) {
      std::vector<std::span<const std::byte>> outgoing(core.size());
      std::vector<std::span<std::byte>> incoming(core.size());
      for (int rank = 0; rank < core.size(); ++rank) {
        outgoing[rank] = present(data.bytes().subspan(sends[rank], sends[rank + 1] - sends[rank]));
        incoming[rank] =
            present(result.bytes().subspan(recvs[rank], recvs[rank + 1] - recvs[rank]));
      }
      return collective::exchangeMessages(turn, outgoing, incoming);
    }
    // Everybody posts where its parts start; a reader finds its own by its number.
    collective::Board& board = *core.board();
    std::ranges::copy(sends, board.numbers(core.rank(), turn.sequence).begin());
    Status misfit;
    const Status status = collective::showAll(
        turn, data.bytes(), ~std::size_t{0},
        [&](int rank) { return board.numbers(rank, turn.sequence)[core.size()]; },
        [&](std::size_t begin, std::size_t end, std::span<const std::byte* const> at) {
          for (int rank = 0; rank < core.size(); ++rank) {
            const auto theirs = board.numbers(rank, turn.sequence);
            const Range part{theirs[core.rank()], theirs[core.rank() + 1]};
            const std::size_t wanted = recvs[rank + 1] - recvs[rank];
            if (part.size() != wanted) {
              misfit = {StatusCode::kMismatch,
                        fmt::format("{} sends {} bytes to {}, which expects {}",
                                    core.options().names[rank], part.size(),
                                    core.options().names[core.rank()], wanted),
                        core.options().members[rank]};
              continue;
            }
            const Range seen = within(part.begin, part.end, begin, end);
            copyBytes(result.data() + recvs[rank] + (seen.begin - part.begin),
                      at[rank] + (seen.begin - begin), seen.size());
          }
        });
    return first({status, misfit});
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
  return core.run(arguments, options.timeout, refusal, [&](Turn& turn) {
    const std::size_t part = data.bytes().size();
    if (core.board() == nullptr) {
      std::vector<std::span<const std::byte>> outgoing(core.size());
      std::vector<std::span<std::byte>> incoming(core.size());
      outgoing[root] = present(data.bytes());
      for (int rank = 0; mine && rank < core.size(); ++rank) {
        incoming[rank] = present(result.bytes().subspan(rank * part, part));
      }
      return collective::exchangeMessages(turn, outgoing, incoming);
    }
    return collective::showAll(
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
  return core.run(arguments, options.timeout, refusal, [&](Turn& turn) {
    const std::size_t part = result.bytes().size();
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
    return collective::showAll(
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
