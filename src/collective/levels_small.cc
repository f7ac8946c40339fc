// A small allreduce on two levels. Partial sums travel in the posts of one meeting inside each
// host. Its first rank adds them up and exchanges the host's partial sums with the first ranks of
// other hosts, all of which then know the sum; the other ranks of the host find it on the first
// one's board. That is one round of messages, whatever the ranks per host.
#include <memory>
#include <vector>

#include "collective/algorithms.h"
#include "collective/fold.h"
#include "collective/host_tree.h"
#include "collective/messages.h"
#include "collective/on_levels.h"
#include "collective/posted.h"

namespace colla::collective {
namespace {

// The part of the first rank of a host.
class FirstOfHost {
 public:
  FirstOfHost(GroupCore::Turn& turn, std::span<const Reduction> reductions)
      : turn_(turn),
        levels_(*turn.group.levels()),
        reductions_(reductions),
        plan_(reductions.front().tree, levels_.topology()) {}

  // What the leaves of one reduction's tree, where they are this host's, come to.
  void add(const Reduction& reduction, std::span<const std::byte* const> leaves) {
    const DataType type = reduction.result.type();
    const int first = above().firstLeaf(levels_.host());
    for (int leaf = first; leaf < above().firstLeaf(levels_.host() + 1); ++leaf) {
      const std::size_t at = own_.size();
      own_.resize(at + sumBytes(reduction));
      std::byte* const out = own_.data() + at;
      Folder(plan_.below(leaf), type, reduction.op)(leaves, std::span(&out, 1),
                                                    reduction.result.count());
    }
  }

  Status exchange() {
    return levels_.topology().hosts() <= kFewRanks ? exchangeWithAll() : followTree();
  }

 private:
  const SumTree& above() const { return plan_.above(); }
  // Of one partial sum, so that the next one is aligned.
  static std::size_t sumBytes(const Reduction& reduction) {
    return roundedUp(reduction.result.count() * sizeOf(Folder::sumType(reduction.result.type())));
  }
  static std::size_t roundedUp(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

  // One message to every host, with its partial sums of all reductions one behind the other.
  Status exchangeWithAll() {
    GroupCore::Turn across = turn_.across(0);
    std::size_t each = 0;  // Of what one leaf above brings to all reductions.
    for (const Reduction& reduction : reductions_) each += sumBytes(reduction);
    const auto received = std::make_unique_for_overwrite<std::byte[]>(each * above().leaves());
    std::vector<const std::byte*> from(across.size());
    Messages messages(across);
    for (int host = 0; host < across.size(); ++host) {
      std::byte* const at = received.get() + each * above().firstLeaf(host);
      from[host] = host == across.rank() ? own_.data() : at;
      if (host != across.rank()) messages.recv(host, 0, {at, each * above().leavesOf(host)});
    }
    for (int distance = 1; distance < across.size(); ++distance) {
      messages.send((across.rank() + distance) % across.size(), 0, own_);
    }
    COLLA_TRY(messages.wait());

    std::vector<const std::byte*> leaves(above().leaves());
    for (const Reduction& reduction : reductions_) {
      for (int host = 0; host < across.size(); ++host) {
        for (int i = 0; i < above().leavesOf(host); ++i) {
          leaves[above().firstLeaf(host) + i] = from[host];
          from[host] += sumBytes(reduction);
        }
      }
      COLLA_TRY(finish(reduction, [&](Buffer sum) -> Status {
        std::byte* const out = sum.data();
        Folder(above(), sum.type(), reduction.op)(leaves, std::span(&out, 1), sum.count());
        return {};
      }));
    }
    return {};
  }

  // Many hosts: one reduction after the other.
  Status followTree() {
    const std::byte* next = own_.data();
    for (std::size_t number = 0; number < reductions_.size(); ++number) {
      const Reduction& reduction = reductions_[number];
      GroupCore::Turn across = turn_.across(0, static_cast<std::uint32_t>(number));
      std::vector<ConstBuffer> partials;
      const DataType type = Folder::sumType(reduction.result.type());
      for (int i = 0; i < above().leavesOf(levels_.host()); ++i) {
        partials.emplace_back(next, reduction.result.count(), type);
        next += sumBytes(reduction);
      }
      COLLA_TRY(finish(reduction, [&](Buffer sum) {
        return allreduceTree({across, above(), partials, sum, reduction.op});
      }));
    }
    return {};
  }

  // form(sum), and its rounding where sums are wider than the result.
  template <typename Form>
  static Status finish(const Reduction& reduction, const Form& form) {
    const Buffer result = reduction.result;
    const Widening* const widening = wideningFor(result.type());
    if (widening == nullptr) return form(result);
    std::vector<float> sum(result.count());
    COLLA_TRY(form(Buffer(sum.data(), sum.size(), DataType::kFloat32)));
    widening->round(result.data(), sum.data(), sum.size());
    return {};
  }

  GroupCore::Turn& turn_;
  Levels& levels_;
  const std::span<const Reduction> reductions_;
  const HostTree plan_;
  std::vector<std::byte> own_;
};

// The results, one behind the other, in the first rank's staging area.
template <typename Copy>
void forEachResult(Board& board, std::span<const Reduction> reductions, const Copy& copy) {
  std::byte* at = board.staging(0).data();
  for (const Reduction& reduction : reductions) {
    copy(at, reduction.result);
    at += roomFor(1, reduction.result.bytes().size());
  }
}

}  // namespace

Status allreduceLevelsSmall(std::span<const Reduction> reductions) {
  GroupCore::Turn& turn = reductions.front().turn;
  Levels& levels = *turn.group.levels();
  Board* const board = levels.board();
  if (board == nullptr) {
    FirstOfHost first(turn, reductions);
    for (const Reduction& reduction : reductions) {
      std::vector<const std::byte*> leaves(reduction.tree.leaves());
      for (std::size_t i = 0; i < reduction.partials.size(); ++i) {
        leaves[reduction.tree.firstLeaf(turn.rank()) + i] = reduction.partials[i].data();
      }
      first.add(reduction, leaves);
    }
    return first.exchange();
  }

  GroupCore::Turn inside = turn.inside();
  const PostedReductions posted(reductions);
  board->draft(inside.sequence, inside.call);
  posted.put(board->small(inside.rank(), inside.sequence));
  COLLA_TRY(board->arrive(inside.sequence, inside.deadline));
  if (inside.rank() != 0) {
    board->advance();
    COLLA_TRY(board->awaitAll(inside.deadline));
    forEachResult(*board, reductions, [](const std::byte* at, Buffer result) {
      copyBytes(result.data(), at, result.bytes().size());
    });
    return {};
  }
  FirstOfHost first(turn, reductions);
  posted.forEach(
      *board, inside.sequence, [&](int rank) { return levels.ranksHere()[rank]; },
      [&](const Reduction& reduction, std::span<const std::byte* const> leaves) {
        first.add(reduction, leaves);
      });
  COLLA_TRY(first.exchange());
  forEachResult(*board, reductions, [](std::byte* at, Buffer result) {
    copyBytes(at, result.data(), result.bytes().size());
  });
  board->advance();
  return {};
}

}  // namespace colla::collective
