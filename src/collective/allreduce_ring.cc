// Ring: n-1 rounds in which every rank adds a chunk to what its left neighbour sent, and n-1 in
// which the finished chunks go round. It adds each chunk in another order, starting at another
// rank: the bits depend on the number of ranks. It is here for comparison with the systems that
// work this way.
#include <cstring>
#include <memory>

#include "collective/algorithms.h"
#include "collective/kernels.h"
#include "collective/messages.h"

namespace colla::collective {

Status allreduceRing(const Reduction& reduction) {
  const auto& [turn, tree, partials, result, op] = reduction;
  turn.group.warnOnce(
      "the ring adds in another order than the canonical one: its bits depend on the number of "
      "workers");
  const int self = turn.rank();
  const int ranks = turn.size();
  const int left = (self + ranks - 1) % ranks;
  const int right = (self + 1) % ranks;
  const std::size_t bytes = result.bytes().size();
  const std::size_t elementSize = sizeOf(result.type());
  const Kernels& kernels = kernelsFor(result.type(), op);

  // Aside, as any of the partial sums may be the memory of the result.
  const auto own = std::make_unique_for_overwrite<std::byte[]>(bytes);
  std::copy_n(partials[0].data(), bytes, own.get());
  for (const ConstBuffer& partial : partials.subspan(1)) {
    kernels.combine(own.get(), own.get(), partial.data(), result.count());
  }
  std::copy_n(own.get(), bytes, result.data());

  const auto chunk = [&](int index) { return chunkOf(bytes, ranks, (index + ranks) % ranks); };
  const auto received = std::make_unique_for_overwrite<std::byte[]>(chunk(0).size());
  for (int round = 0; round < ranks - 1; ++round) {
    const Range give = chunk(self - round);
    const Range take = chunk(self - round - 1);
    Messages messages(turn);
    messages.recv(left, round, {received.get(), take.size()});
    messages.send(right, round, bytesOf(result, give));
    COLLA_TRY(messages.wait());
    std::byte* const at = result.data() + take.begin;
    kernels.combine(at, received.get(), at, take.size() / elementSize);
  }
  const Range mine = chunk(self + 1);
  std::byte* const at = result.data() + mine.begin;
  kernels.finish(at, at, mine.size() / elementSize, tree.slices());

  for (int round = 0; round < ranks - 1; ++round) {
    Messages messages(turn);
    messages.recv(left, ranks + round, bytesOf(result, chunk(self - round)));
    messages.send(right, ranks + round, bytesOf(result, chunk(self - round + 1)));
    COLLA_TRY(messages.wait());
  }
  return {};
}

}  // namespace colla::collective
