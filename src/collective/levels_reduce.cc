// Large reductions on two levels. What is to be summed is cut into one part for each rail, and the
// rank of this host that is in a rail carries that part through all phases: it adds what the host's
// ranks bring, straight from their memory; the rail's ranks exchange the hosts' partial sums by
// messages, and each puts the results into its neighbours' memory. So all ranks add and send, and
// what leaves a host are its partial sums alone, whatever its number of ranks.
//
// Where a rank's buffers are private, it copies them into shared memory block by block, and copies
// the results out again.
//
// 16-bit floats are sums of float32 on their way to where they are added, and rounded there once:
// results travel with 16 bits.
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
    // Rounds are the same on every host, blocks within them are this host's own affair.
    const std::size_t atOnce = kLevelsRailBytes * levels_.rails();
    std::uint32_t number = 0;
    for (std::size_t begin = 0; begin < bytes_; begin += atOnce, ++number) {
      round_ = {begin, std::min(bytes_, begin + atOnce)};
      COLLA_TRY(runRound(number));
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
  // One block of every rail's part, of one partial sum.
  std::size_t bytesOfCopies() const { return railBlockBytes() * levels_.rails(); }
  std::size_t lengthOf(const Mate& mate) const { return mate.copied ? bytesOfCopies() : bytes_; }

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
      const std::size_t each = bytesOfCopies();
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

  // The part of the present round that a rail carries.
  Range railPart(int rail) const {
    if (rail >= levels_.rails()) return {round_.begin, round_.begin};
    const Range part = chunkOf(round_.size(), levels_.rails(), rail);
    return {round_.begin + part.begin, round_.begin + part.end};
  }

  // Blocks: some bytes of every rail's part, of which ranks copy all that others carry.
  std::size_t railBlockBytes() const {
    return chunkOf(std::min(bytes_, kLevelsBlockBytes), levels_.rails(), 0).size();
  }
  std::size_t blocks() const {
    if (!anyCopied_) return 1;
    return (railPart(0).size() + railBlockBytes() - 1) / railBlockBytes();  // The first is longest.
  }
  Range blockOf(int rail, std::size_t block) const {
    const Range part = railPart(rail);
    if (!anyCopied_) return part;
    const std::size_t begin = std::min(part.end, part.begin + block * railBlockBytes());
    return {begin, std::min(part.end, begin + railBlockBytes())};
  }
  // Where a rail's bytes of a block begin among copies.
  std::size_t placeOf(int rail) const { return rail * railBlockBytes(); }

  // copy(range, where it begins among the copies), for what others carry of this rank's: it reads
  // and writes its own part where it is.
  template <typename Copy>
  void forOthersParts(std::size_t block, const Copy& copy) {
    for (int rail = 0; rail < levels_.rails(); ++rail) {
      const Range range = blockOf(rail, block);
      if (rail != inside_.rank() && range.size() > 0) copy(range, placeOf(rail));
    }
  }

  void copyIn(std::size_t block) {
    forOthersParts(block, [&](Range range, std::size_t place) {
      for (std::size_t i = 0; i < copies_.size(); ++i) {
        stageBytes(copies_[i] + place, reduction_.partials[i].data() + range.begin, range.size());
      }
    });
    finishStaging();
  }

  void copyOut(std::size_t block) {
    if (!wantsResult(inside_.rank())) return;
    forOthersParts(block, [&](Range range, std::size_t place) {
      copyBytes(reduction_.result.data() + range.begin, copies_[0] + place, range.size());
    });
  }

  const std::byte* inputOf(int local, int i, Range range) const {
    if (local == inside_.rank()) return reduction_.partials[i].data() + range.begin;
    const Mate& mate = mates_[local];
    return mate.inputs[i] + (mate.copied ? placeOf(inside_.rank()) : range.begin);
  }

  // Adds inside, block by block; exchanges; hands out, block by block.
  Status runRound(std::uint32_t number) {
    prepareSums();
    for (std::size_t block = 0; block < blocks(); ++block) {
      if (copied_) copyIn(block);
      if (anyCopied_) COLLA_TRY(step());
      add(block);
      // Copies are there until all have read them.
      if (anyCopied_) COLLA_TRY(step());
    }
    const Range part = railPart(inside_.rank());
    if (part.size() > 0) {
      GroupCore::Turn across = turn_.across(inside_.rank(), number);
      const Reduction over{across, plan_.above(), sums_,
                           Buffer(result_, part.size() / sizeOf(type_), type_), reduction_.op};
      COLLA_TRY(root_ == kEverybody ? allreduceByMessages(over)
                                    : reduceByMessages(over, levels_.topology().hostOf(root_)));
    }
    for (std::size_t block = 0; block < blocks(); ++block) {
      handOut(block);
      if (!anyCopied_) continue;
      COLLA_TRY(step());
      if (copied_) copyOut(block);
      if (block + 1 < blocks()) COLLA_TRY(step());
    }
    return {};
  }

  // A term is used where it lies, if it is no copy.
  bool liesStill(std::span<const SumTree::Node> below) const {
    if (below.size() > 1 || sumType_ != type_) return false;
    const auto local = std::ranges::find(levels_.ranksHere(), below.back().rank);
    const auto& mate = mates_;
    const auto number = static_cast<std::size_t>(local - levels_.ranksHere().begin());
    return mate.empty() || mate[number].self || !mate[number].copied;
  }

  // Where this host's sums of this rank's part go, and the result.
  void prepareSums() {
    const Range part = railPart(inside_.rank());
    const std::size_t count = part.size() / sizeOf(type_);
    const std::size_t sumBytes = count * sizeOf(sumType_);
    const SumTree& above = plan_.above();
    const int first = above.firstLeaf(levels_.host());
    const int own = above.leavesOf(levels_.host());
    std::byte* const memory = levels_.sums((own + 1) * sumBytes);
    findLeaves(part, leaves_);
    sums_.clear();
    for (int i = 0; i < own; ++i) {
      const auto below = plan_.below(first + i);
      const std::byte* const at =
          liesStill(below) ? leaves_[below.back().leaf] : memory + i * sumBytes;
      sums_.emplace_back(at, count, sumType_);
    }
    result_ = wantsResult(inside_.rank()) ? reduction_.result.data() + part.begin
                                          : memory + own * sumBytes;
  }

  // leaves[i]: where leaf i has the range, for those of this host.
  void findLeaves(Range range, std::vector<const std::byte*>& leaves) const {
    leaves.resize(tree().leaves());
    for (int local = 0; local < inside_.size(); ++local) {
      const int rank = rankOf(local);
      for (int i = 0; i < tree().leavesOf(rank); ++i) {
        leaves[tree().firstLeaf(rank) + i] = inputOf(local, i, range);
      }
    }
  }

  // This rank's part of a block.
  void add(std::size_t block) {
    const Range range = blockOf(inside_.rank(), block);
    if (range.size() == 0) return;
    findLeaves(range, leaves_);
    const std::size_t offset =
        (range.begin - railPart(inside_.rank()).begin) / sizeOf(type_) * sizeOf(sumType_);
    const int first = plan_.above().firstLeaf(levels_.host());
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const auto below = plan_.below(first + static_cast<int>(i));
      if (liesStill(below)) continue;
      std::byte* const out = const_cast<std::byte*>(sums_[i].data()) + offset;
      Folder(below, type_, reduction_.op)(leaves_, std::span(&out, 1),
                                          range.size() / sizeOf(type_));
    }
  }

  // The results of this rank's part of a block to those of this host that want them.
  void handOut(std::size_t block) {
    const int self = inside_.rank();
    const Range range = blockOf(self, block);
    const std::byte* const from = result_ + (range.begin - railPart(self).begin);
    for (int local = 0; local < inside_.size(); ++local) {
      if (local == self || range.size() == 0 || !wantsResult(local)) continue;
      const Mate& mate = mates_[local];
      copyBytes(mate.result + (mate.copied ? placeOf(self) : range.begin), from, range.size());
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
  // Of the present round.
  Range round_;
  std::vector<ConstBuffer> sums_;  // Of this rank's part, by leaf of the tree above.
  std::byte* result_ = nullptr;
  std::vector<const std::byte*> leaves_;
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
