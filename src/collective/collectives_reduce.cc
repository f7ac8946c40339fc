// The public collectives that reduce: each checks its arguments, says what it is, and picks a way.
// Where the ranks share memory that is the shared one, unless another was named; where some of them
// do, two levels; otherwise messages.
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/crc32c.h"
#include "colla/collectives.h"
#include "collective/algorithms.h"
#include "collective/allreduce.h"
#include "collective/arguments.h"
#include "collective/fold.h"
#include "collective/kernels.h"
#include "collective/on_levels.h"
#include "collective/shared.h"

namespace colla {
namespace {

using collective::CallArguments;
using collective::checkCount;
using collective::checkOp;
using collective::checkRank;
using collective::checkType;
using collective::first;
using collective::Operation;
using collective::Range;
using collective::within;
using Turn = GroupCore::Turn;

Algorithm choose(GroupCore& group, const collective::SumTree& tree, ConstBuffer data) {
  if (group.board() != nullptr) return Algorithm::kShared;
  if (group.levels() != nullptr && collective::fitsLevels(tree)) return Algorithm::kLevels;
  return collective::chooseByMessages(group.size(), tree, data.type(), data.bytes().size());
}

// The direct algorithm, which can do everything, replaces one that can't do this.
Algorithm possible(GroupCore& group, const collective::SumTree& tree, DataType type,
                   Algorithm wanted) {
  if (group.size() == 1) return Algorithm::kFlat;
  // One level is enough on one host.
  if (wanted == Algorithm::kLevels && group.board() != nullptr) return Algorithm::kShared;
  const bool levels = group.levels() != nullptr && collective::fitsLevels(tree);
  const bool sums = wanted == Algorithm::kHalving || wanted == Algorithm::kTree;
  if (sums && !collective::canSendSums(type)) return Algorithm::kDirect;
  if (wanted == Algorithm::kShared && group.board() == nullptr) return Algorithm::kDirect;
  if (wanted == Algorithm::kLevels && !levels) return Algorithm::kDirect;
  if (wanted == Algorithm::kHalving && !tree.complete()) return Algorithm::kDirect;
  return wanted;
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
        possible(group, tree, result.type(),
                 named == Algorithm::kAuto ? choose(group, tree, result) : named);
    const collective::Reduction reduction{turn, tree, partials, result, options.op};
    if (algorithm == Algorithm::kShared) return collective::allreduceShared(reduction);
    if (algorithm == Algorithm::kLevels) return collective::allreduceLevels(reduction);
    // Ranks that share memory look for each other's calls there, whatever the algorithm.
    if (group.board() != nullptr) {
      COLLA_TRY(group.board()->arrive(turn.sequence, turn.call, turn.deadline));
    }
    if (group.levels() != nullptr) COLLA_TRY(collective::meetLevels(turn));
    return collective::allreduceByMessages(reduction, algorithm);
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
  if (tree.slices() > tree.leaves() && !collective::canSendSums(result.type())) {
    refusal = first({refusal, invalid("a sum of several slices needs 32 bits until the last one is "
                                      "added, but it is {}: keep partial sums in float32",
                                      toString(result.type()))});
  }
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
    if (group.levels() != nullptr) return allreduceLevelsSmall(reductions);
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
  const bool levels =
      core.levels() != nullptr && (named == Algorithm::kAuto || named == Algorithm::kLevels);
  const bool posts = levels || (core.board() != nullptr &&
                                (named == Algorithm::kAuto || named == Algorithm::kShared));
  std::vector<SumPart> small;
  std::vector<std::size_t> bytes;  // Of the small ones.
  std::vector<const SumPart*> large;
  for (const SumPart& part : parts) {
    bytes.push_back(part.result.bytes().size());
    if (posts && fitsPosts(tree, bytes)) {
      small.push_back(part);
    } else {
      bytes.pop_back();
      large.push_back(&part);
    }
  }
  std::span<const SumPart* const> alone = large;
  if (!small.empty()) {
    const bool with = !levels && !large.empty();
    COLLA_TRY(postTogether(core, tree, small, with ? large.front() : nullptr, options));
    if (with) alone = alone.subspan(1);
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
    // What others than the root have there may be of any type.
    const Buffer into = mine ? result : Buffer(nullptr, 0, data.type());
    const collective::Reduction reduction{turn, core.tree(), std::span(&data, 1), into, options.op};
    if (core.levels() != nullptr) return collective::reduceLevels(reduction, root);
    return collective::reduceByMessages(reduction, root);
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
    if (core.levels() != nullptr) {
      return collective::reduceScatterLevels(turn, data, result, options.op);
    }
    std::vector<Range> ranges(core.size());
    for (int rank = 0; rank < core.size(); ++rank) ranges[rank] = {rank * part, (rank + 1) * part};
    return collective::reduceDirect(turn, core.tree(), std::span(&data, 1), options.op, ranges,
                                    result.data(), [](Range) {});
  });
}

}  // namespace colla
