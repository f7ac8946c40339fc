// Large reductions on two levels. What is to be summed is cut into one part for each rail, and the
// rank of this host that is in a rail carries that part through all phases: it adds what the host's
// ranks bring, straight from their memory; the rail's ranks exchange the hosts' partial sums by
// messages, and each puts the results into its neighbours' memory. So all ranks add and send, and
// what leaves a host are its partial sums alone, whatever its number of ranks.
//
// Where a rank's buffers are private, it copies them into shared memory block by block, and copies
// the results out again. Blocks are cut at the same places on every host.
//
// 16-bit floats are sums of float32 between hosts, rounded once where the result goes.
#include <algorithm>
#include <vector>

#include "collective/algorithms.h"
#include "collective/fold.h"
#include "collective/host_tree.h"
#include "collective/on_levels.h"
#include "collective/shared.h"

namespace colla::collective {
namespace {

constexpr int kEverybody = -1;

class LevelsReduction {
 public:
  LevelsReduction(const Reduction& reduction, int root)
      : reduction_(reduction),
        turn_(reduction.turn),
        levels_(*turn_.group.levels()),
        board_(levels_.board()),
        inside_(turn_.inside()),
        plan_(reduction.tree, levels_.topology()),
        root_(root),
        type_(reduction.partials[0].type()),
        sumType_(Folder::sumType(type_)),
        bytes_(reduction.partials[0].bytes().size()) {}

  Status run() {
    if (board_ != nullptr) COLLA_TRY(meet());
    std::uint32_t round = 0;
    for (std::size_t begin = 0; begin < bytes_; begin += kLevelsBlockBytes, ++round) {
      block_ = {begin, std::min(bytes_, begin + kLevelsBlockBytes)};
      if (anyCopied_) {
        if (copied_) copyIn();
        COLLA_TRY(step());
      }
      COLLA_TRY(reduceRail(round));
      if (anyCopied_) {
        COLLA_TRY(step());
        if (copied_) copyOut();
      }
    }
    return board_ == nullptr || anyCopied_ ? Status() : step();
  }

 private:
  // Where a rank of this host has its partial sums and its result, from here.
  struct Mate {
    std::vector<std::byte*> inputs;
    std::byte* result = nullptr;
    bool copied = false;  // These are copies of the present block.
    bool self = false;
  };

  const SumTree& tree() const { return reduction_.tree; }
  int rankOf(int local) const { return levels_.ranksHere()[local]; }
  bool wantsResult(int local) const { return root_ == kEverybody || root_ == rankOf(local); }
  std::size_t lengthOf(const Mate& mate) const {
    return mate.copied ? std::min(bytes_, kLevelsBlockBytes) : bytes_;
  }

  // Everybody posts where its buffers are, in shared memory or copied there.
  Status meet() {
    Board::Post& post = board_->draft(inside_.sequence, inside_.call);
    transport::SharedMemory& memory = board_->memory();
    const std::size_t count = reduction_.partials.size();
    const bool wants = wantsResult(inside_.rank());
    if (wants) post.result = memory.find(reduction_.result.bytes());
    copied_ = wants && post.result.region == transport::Place::kNowhere;
    for (std::size_t i = 0; i < count; ++i) {
      post.inputs[i] = memory.find(reduction_.partials[i].bytes());
      copied_ = copied_ || post.inputs[i].region == transport::Place::kNowhere;
    }
    if (copied_) {
      const std::size_t each = (std::min(bytes_, kLevelsBlockBytes) + kLine - 1) / kLine * kLine;
      COLLA_TRY_ASSIGN(const auto copies, levels_.copies(each * count));
      for (std::size_t i = 0; i < count; ++i) {
        copies_.push_back(copies.data() + i * each);
        post.inputs[i] = memory.find(copies.subspan(i * each, each));
      }
      // A result goes where its leaf was, once that has been added.
      post.result = post.inputs[0];
    }
    post.copied = copied_;
    COLLA_TRY(board_->arrive(inside_.sequence, inside_.deadline));
    for (int local = 0; local < inside_.size(); ++local) COLLA_TRY(find(local));
    return {};
  }

  // The memory of a local rank.
  Status find(int local) {
    const Board::Post& post = board_->posted(local, inside_.sequence);
    Mate& mate = mates_.emplace_back();
    mate.copied = post.copied;
    mate.self = local == inside_.rank();
    anyCopied_ = anyCopied_ || mate.copied;
    if (mate.self) return {};
    const auto at = [&](transport::Place place) -> Result<std::byte*> {
      COLLA_TRY_ASSIGN(auto mapping, board_->map(local, place, lengthOf(mate), inside_.deadline));
      return mappings_.emplace_back(std::move(mapping)).bytes.data();
    };
    for (int i = 0; i < tree().leavesOf(rankOf(local)); ++i) {
      COLLA_TRY_ASSIGN(mate.inputs.emplace_back(), at(post.inputs[i]));
    }
    if (!wantsResult(local)) return {};
    COLLA_TRY_ASSIGN(mate.result, at(post.result));
    return {};
  }

  Status step() {
    board_->advance();
    return board_->awaitAll(inside_.deadline);
  }

  // The part of the present block that a rail carries.
  Range railPart(int rail) const {
    if (rail >= levels_.rails()) return {block_.begin, block_.begin};
    const Range part = chunkOf(block_.size(), levels_.rails(), rail);
    return {block_.begin + part.begin, block_.begin + part.end};
  }

  // What others carry of this rank's: it reads and writes its own part where it is.
  template <typename Copy>
  void forOthersParts(const Copy& copy) {
    const Range own = railPart(inside_.rank());
    for (const Range range : {Range{block_.begin, own.begin}, Range{own.end, block_.end}}) {
      if (range.size() > 0) copy(range);
    }
  }

  void copyIn() {
    forOthersParts([&](Range range) {
      for (std::size_t i = 0; i < copies_.size(); ++i) {
        stageBytes(copies_[i] + (range.begin - block_.begin),
                   reduction_.partials[i].data() + range.begin, range.size());
      }
    });
    finishStaging();
  }

  void copyOut() {
    if (!wantsResult(inside_.rank())) return;
    forOthersParts([&](Range range) {
      copyBytes(reduction_.result.data() + range.begin, copies_[0] + (range.begin - block_.begin),
                range.size());
    });
  }

  const std::byte* inputOf(int local, int i, std::size_t offset) const {
    if (local == inside_.rank()) return reduction_.partials[i].data() + offset;
    const Mate& mate = mates_[local];
    return mate.inputs[i] + (mate.copied ? offset - block_.begin : offset);
  }

  // This rank's rail, for the present block.
  Status reduceRail(std::uint32_t round) {
    const Range part = railPart(inside_.rank());
    if (part.size() == 0) return {};
    const std::size_t count = part.size() / sizeOf(type_);
    const std::size_t sumBytes = count * sizeOf(sumType_);
    const SumTree& above = plan_.above();
    const int first = above.firstLeaf(levels_.host());
    const int own = above.leavesOf(levels_.host());

    std::vector<const std::byte*> leaves(tree().leaves());
    for (int local = 0; local < inside_.size(); ++local) {
      const int rank = rankOf(local);
      for (int i = 0; i < tree().leavesOf(rank); ++i) {
        leaves[tree().firstLeaf(rank) + i] = inputOf(local, i, part.begin);
      }
    }
    std::byte* const sums = levels_.sums((own + 1) * sumBytes);
    std::vector<ConstBuffer> partials;
    for (int i = 0; i < own; ++i) {
      const auto below = plan_.below(first + i);
      if (below.size() == 1 && sumType_ == type_) {
        partials.emplace_back(leaves[below.back().leaf], count, sumType_);
        continue;
      }
      std::byte* const out = sums + i * sumBytes;
      Folder(below, type_, reduction_.op)(leaves, std::span(&out, 1), count);
      partials.emplace_back(out, count, sumType_);
    }

    const bool inPlace = wantsResult(inside_.rank()) && sumType_ == type_;
    std::byte* const out = inPlace ? reduction_.result.data() + part.begin : sums + own * sumBytes;
    GroupCore::Turn across = turn_.across(inside_.rank(), round);
    const Reduction over{across, above, partials, Buffer(out, count, sumType_), reduction_.op};
    COLLA_TRY(root_ == kEverybody ? allreduceByMessages(over)
                                  : reduceByMessages(over, levels_.topology().hostOf(root_)));
    handOut(part, out);
    return {};
  }

  // The sums of `part` to those of this host that want them.
  void handOut(Range part, const std::byte* sums) {
    const Widening* const widening = wideningFor(type_);
    for (int local = 0; local < inside_.size(); ++local) {
      if (!wantsResult(local)) continue;
      std::byte* to = reduction_.result.data() + part.begin;
      if (local != inside_.rank()) {
        const Mate& mate = mates_[local];
        to = mate.result + (mate.copied ? part.begin - block_.begin : part.begin);
      }
      if (widening != nullptr) {
        widening->round(to, reinterpret_cast<const float*>(sums), part.size() / sizeOf(type_));
      } else if (to != sums) {
        copyBytes(to, sums, part.size());
      }
    }
  }

  const Reduction& reduction_;
  GroupCore::Turn& turn_;
  Levels& levels_;
  Board* const board_;
  GroupCore::Turn inside_;
  const HostTree plan_;
  const int root_;
  const DataType type_, sumType_;
  const std::size_t bytes_;
  std::vector<Mate> mates_;
  std::vector<transport::Mapping> mappings_;
  std::vector<std::byte*> copies_;  // Of this rank's partial sums.
  bool copied_ = false, anyCopied_ = false;
  Range block_;
};

}  // namespace

bool fitsLevels(const SumTree& tree) {
  return static_cast<std::size_t>(tree.mostLeaves()) <= Board::kMostInputs;
}

Status allreduceLevels(const Reduction& reduction) {
  const std::size_t bytes = reduction.result.bytes().size();
  if (fitsPosts(reduction.tree, std::span(&bytes, 1))) {
    return allreduceLevelsSmall(std::span(&reduction, 1));
  }
  return LevelsReduction(reduction, kEverybody).run();
}

Status reduceLevels(const Reduction& reduction, int root) {
  if (reduction.partials[0].bytes().empty()) return barrierLevels(reduction.turn);
  return LevelsReduction(reduction, root).run();
}

// Lane number L sums the parts of the L-th ranks of all hosts. The rank of this host that is in it
// adds what the host brings to each of them; then the direct algorithm goes on between hosts.
Status reduceScatterLevels(GroupCore::Turn& turn, ConstBuffer data, Buffer out, ReduceOp op) {
  Levels& levels = *turn.group.levels();
  const Topology& topology = levels.topology();
  const SumTree& tree = turn.group.tree();
  const HostTree plan(tree, topology);
  const SumTree& above = plan.above();
  const DataType type = data.type(), sumType = Folder::sumType(type);
  const std::size_t part = out.bytes().size(), count = out.count();
  const std::size_t sumBytes = count * sizeOf(sumType);
  const int first = above.firstLeaf(levels.host()), own = above.leavesOf(levels.host());

  // By lane of this rank, leaf above, and host: the sums of a part.
  struct Wanted {
    int rank;  // Whose part.
    std::size_t lane, host;
  };
  std::vector<Wanted> wanted;
  std::vector<int> lanes;
  for (int lane = 0; lane < levels.lanes(); ++lane) {
    if (!levels.takes(lane)) continue;
    for (int host = 0; host < topology.hosts(); ++host) {
      const auto ranks = topology.ranksOn(host);
      if (lane >= static_cast<int>(ranks.size())) continue;
      wanted.push_back({ranks[lane], lanes.size(), static_cast<std::size_t>(host)});
    }
    lanes.push_back(lane);
  }
  const std::size_t leafBytes = topology.hosts() * sumBytes;
  std::byte* const sums = levels.sums(lanes.size() * own * leafBytes + sumBytes);
  std::vector<const std::byte*> leaves(tree.leaves());
  const auto fold = [&](std::size_t begin, std::size_t end, const auto& at) {
    for (const Wanted& each : wanted) {
      const std::size_t from = each.rank * part;
      const Range seen{std::clamp(begin, from, from + part), std::clamp(end, from, from + part)};
      if (seen.size() == 0) continue;
      for (std::size_t local = 0; local < at.size(); ++local) {
        leaves[levels.ranksHere()[local]] = at[local] + (seen.begin - begin);
      }
      for (int i = 0; i < own; ++i) {
        std::byte* const to = sums + (each.lane * own + i) * leafBytes + each.host * sumBytes +
                              (seen.begin - from) / sizeOf(type) * sizeOf(sumType);
        Folder(plan.below(first + i), type, op)(leaves, std::span(&to, 1),
                                                seen.size() / sizeOf(type));
      }
    }
  };
  const std::size_t bytes = data.bytes().size();
  if (levels.board() == nullptr) {
    const std::byte* const self = data.data();
    fold(0, bytes, std::span(&self, 1));
  } else {
    GroupCore::Turn inside = turn.inside();
    COLLA_TRY(readSources(
        inside, data.bytes(), bytes, [&](int) { return bytes; }, fold));
  }

  std::byte* const result = sumType == type ? out.data() : sums + lanes.size() * own * leafBytes;
  for (std::size_t number = 0; number < lanes.size(); ++number) {
    GroupCore::Turn across = turn.across(lanes[number], static_cast<std::uint32_t>(lanes[number]));
    std::vector<Range> ranges(topology.hosts());
    for (int host = 0; host < topology.hosts(); ++host) {
      const bool has = lanes[number] < static_cast<int>(topology.ranksOn(host).size());
      const std::size_t begin = host * sumBytes;
      ranges[host] = {begin, has ? begin + sumBytes : begin};
    }
    std::vector<ConstBuffer> partials;
    for (int i = 0; i < own; ++i) {
      partials.emplace_back(sums + (number * own + i) * leafBytes, count * topology.hosts(),
                            sumType);
    }
    COLLA_TRY(reduceDirect(across, above, partials, op, ranges, result, [](Range) {}));
  }
  if (result != out.data()) {
    wideningFor(type)->round(out.data(), reinterpret_cast<const float*>(result), count);
  }
  return {};
}

}  // namespace colla::collective
