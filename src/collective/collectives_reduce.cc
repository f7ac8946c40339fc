// The public collectives that reduce: each checks its arguments, says what it is, and picks a way.
// Where the ranks share memory that is the shared one, unless another was named; otherwise
// messages.
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/crc32c.h"
#include "colla/collectives.h"
#include "collective/algorithms.h"
#include "collective/allreduce.h"
#include "collective/arguments.h"
#include "collective/fold.h"
#include "collective/messages.h"
#include "collective/shared.h"

namespace colla {
namespace {

using collective::CallArguments;
using collective::checkCount;
using collective::checkOp;
using collective::checkRank;
using collective::checkType;
using collective::first;
using collective::kFewRanks;
using collective::Operation;
using collective::Range;
using collective::within;
using Turn = GroupCore::Turn;

Algorithm choose(GroupCore& group, const collective::SumTree& tree, std::size_t bytes) {
  if (group.board() != nullptr) return Algorithm::kShared;
  if (bytes <= collective::kSmallBytes) {
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
  const collective::SumTree& tree = map.tree();
  Status refusal = checkCount("partials", partials.size(), tree.leavesOf(core.rank()));
  for (const ConstBuffer& partial : partials) {
    refusal = first({refusal, checkType(partial, result),
                     checkCount("a partial sum", partial.count(), result.count())});
  }
  return allreduceOver(core, tree, partials, result, options, refusal);
}

namespace collective {
namespace {

// Small parts and the first large one, in the meetings of one turn.
Status postTogether(GroupCore& group, const SumTree& tree, std::span<const SumPart> small,
                    const SumPart* large, const AllreduceOptions& options) {
  const SumPart& main = large != nullptr ? *large : small.front();
  CallArguments arguments{.operation = Operation::kAllreduce,
                          .type = main.result.type(),
                          .op = options.op,
                          .layout = tree.layout(),
                          .count = main.result.count()};
  Status refusal = checkOp(main.result.type(), options.op);
  for (const SumPart& part : small) {
    const std::uint64_t shape[] = {static_cast<std::uint64_t>(part.result.type()),
                                   part.result.count()};
    arguments.layout = crc32c(std::as_bytes(std::span(shape)), arguments.layout);
    refusal = first({refusal, checkOp(part.result.type(), options.op)});
  }
  return group.run(arguments, options.timeout, refusal, [&](Turn& turn) -> Status {
    std::vector<Reduction> reductions;
    for (const SumPart& part : small) {
      reductions.push_back({turn, tree, part.partials, part.result, options.op});
    }
    if (large == nullptr) return allreduceShared(reductions, nullptr);
    const Reduction last{turn, tree, large->partials, large->result, options.op};
    return allreduceShared(reductions, &last);
  });
}

}  // namespace

Status allreduceTogether(Group& group, const SliceMap& map, std::span<const SumPart> parts,
                         const AllreduceOptions& options) {
  GroupCore& core = group.core();
  const SumTree& tree = map.tree();
  COLLA_CHECK(tree.ranks() == core.size());
  const Algorithm named =
      options.algorithm == Algorithm::kAuto ? core.options().algorithm : options.algorithm;
  const bool shared =
      core.board() != nullptr && (named == Algorithm::kAuto || named == Algorithm::kShared);
  std::vector<SumPart> small;
  std::vector<std::size_t> bytes;  // Of the small ones.
  std::vector<const SumPart*> large;
  for (const SumPart& part : parts) {
    bytes.push_back(part.result.bytes().size());
    if (shared && fitsPosts(tree, bytes)) {
      small.push_back(part);
    } else {
      bytes.pop_back();
      large.push_back(&part);
    }
  }
  std::span<const SumPart* const> alone = large;
  if (!small.empty()) {
    COLLA_TRY(postTogether(core, tree, small, large.empty() ? nullptr : large.front(), options));
    if (!large.empty()) alone = alone.subspan(1);
  }
  for (const SumPart* part : alone) {
    COLLA_TRY(allreduceOver(core, tree, part->partials, part->result, options, {}));
  }
  return {};
}

}  // namespace collective

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
      return collective::readSources(
          turn, data.bytes(), bytes, [&](int) { return bytes; },
          [&](std::size_t begin, std::size_t end, std::span<const std::byte* const> at) {
            if (!mine) return;
            std::byte* const out = result.data() + begin;
            fold(at, std::span(&out, 1), (end - begin) / elementSize);
          });
    }
    if (choose(core, core.tree(), bytes) == Algorithm::kTree) {
      return collective::reduceTree({turn, core.tree(), std::span(&data, 1), result, options.op},
                                    root);
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
      return collective::readSources(
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

}  // namespace colla
