// Recursive halving and doubling, for 2^k ranks that bring one partial sum each.
//
// Halving from distance 1 upwards adds in the order of the canonical tree: after round k a rank
// holds the sum of its aligned block of 2^(k+1) ranks, for 1/2^(k+1) of the elements. It ends
// with the chunk of its bit-reversed number. Doubling walks the same way back and hands the
// chunks round. 2·log2(n) messages and 2(n-1)/n of the bytes per rank.
#include <bit>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "collective/algorithms.h"
#include "collective/kernels.h"
#include "collective/messages.h"

namespace colla::collective {
namespace {

// Cut at a multiple of a cache line, so at an element.
std::pair<Range, Range> halves(Range range) {
  const std::size_t middle =
      range.begin + std::min(range.size(), (range.size() / 2 + kLine - 1) / kLine * kLine);
  return {{range.begin, middle}, {middle, range.end}};
}

}  // namespace

Status allreduceHalving(const Reduction& reduction) {
  const auto& [turn, tree, partials, result, op] = reduction;
  COLLA_CHECK(tree.complete());
  const int self = turn.rank();
  const int ranks = turn.size();
  const Kernels& kernels = kernelsFor(result.type(), op);
  const std::size_t elementSize = sizeOf(result.type());
  if (partials[0].data() != result.data()) {
    std::copy_n(partials[0].data(), result.bytes().size(), result.data());
  }

  Range mine{0, result.bytes().size()};
  std::vector<Range> given;  // In each round, for the way back.
  const auto received = std::make_unique_for_overwrite<std::byte[]>(mine.size() / 2 + kLine);
  std::uint32_t step = 0;

  for (int distance = 1; distance < ranks; distance *= 2, ++step) {
    const int partner = self ^ distance;
    auto [keep, give] = halves(mine);
    if (self > partner) std::swap(keep, give);

    Messages messages(turn);
    messages.recv(partner, step, {received.get(), keep.size()});
    messages.send(partner, step, bytesOf(result, give));
    COLLA_TRY(messages.wait());

    std::byte* const own = result.data() + keep.begin;
    const std::byte* left = own;
    const std::byte* right = received.get();
    if (self > partner) std::swap(left, right);
    if (distance * 2 < ranks) {
      kernels.combine(own, left, right, keep.size() / elementSize);
    } else {
      kernels.combineRoot(own, left, right, keep.size() / elementSize, tree.slices());
    }
    given.push_back(give);
    mine = keep;
  }
  for (int distance = ranks / 2; distance >= 1; distance /= 2, ++step) {
    const Range theirs = given.back();
    given.pop_back();
    Messages messages(turn);
    messages.recv(self ^ distance, step, bytesOf(result, theirs));
    messages.send(self ^ distance, step, bytesOf(result, mine));
    COLLA_TRY(messages.wait());
    mine = {std::min(mine.begin, theirs.begin), std::max(mine.end, theirs.end)};
  }
  return {};
}

}  // namespace colla::collective
