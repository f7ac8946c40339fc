// Direct: the buffer is cut into one chunk per rank. Every rank sends each chunk of its partial
// sums to the chunk's owner, who folds them in tree order and sends the result to everybody. Any
// number of ranks, any tree, and 2(n-1)/n of the bytes per rank where each brings one partial sum.
//
// A chunk travels in pieces: folding one, and sending it on, hides behind the arrival of the next.
#include <deque>
#include <memory>
#include <vector>

#include "collective/algorithms.h"
#include "collective/fold.h"
#include "collective/messages.h"

namespace colla::collective {

// Step numbers count (piece, partial sum) from zero; the second half goes on behind them.
Status reduceDirect(GroupCore::Turn& turn, const SumTree& tree,
                    std::span<const ConstBuffer> partials, ReduceOp op,
                    std::span<const Range> ranges, std::byte* out,
                    const std::function<void(Range piece)>& ready) {
  const int self = turn.rank();
  const DataType type = partials[0].type();
  const Range mine = ranges[self];
  const std::size_t pieces = piecesIn(mine);
  const std::size_t others = tree.leaves() - tree.leavesOf(self);
  const auto received = std::make_unique_for_overwrite<std::byte[]>(others * mine.size());

  // Where leaf number i of another rank arrives: one after the other, each `mine` long.
  std::vector<std::byte*> arrival(tree.leaves(), nullptr);
  std::byte* next = received.get();
  for (int rank = 0; rank < turn.size(); ++rank) {
    for (int i = 0; rank != self && i < tree.leavesOf(rank); ++i) {
      arrival[tree.firstLeaf(rank) + i] = next;
      next += mine.size();
    }
  }

  std::deque<Messages> incoming;
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    Messages& messages = incoming.emplace_back(turn);
    const Range range = pieceOf(mine, piece);
    for (int rank = 0; rank < turn.size(); ++rank) {
      for (int i = 0; rank != self && i < tree.leavesOf(rank); ++i) {
        const auto step = static_cast<std::uint32_t>(piece * tree.leavesOf(rank) + i);
        std::byte* at = arrival[tree.firstLeaf(rank) + i] + (range.begin - mine.begin);
        messages.recv(rank, step, {at, range.size()});
      }
    }
  }
  Messages outgoing(turn);
  for (int distance = 1; distance < turn.size(); ++distance) {
    const int rank = (self + distance) % turn.size();  // Not everybody to rank 0 first.
    for (std::size_t piece = 0; piece < piecesIn(ranges[rank]); ++piece) {
      for (std::size_t i = 0; i < partials.size(); ++i) {
        const auto step = static_cast<std::uint32_t>(piece * partials.size() + i);
        outgoing.send(rank, step, bytesOf(partials[i], pieceOf(ranges[rank], piece)));
      }
    }
  }

  const Folder fold(tree, type, op);
  std::vector<const std::byte*> leaves(tree.leaves());
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    COLLA_TRY(incoming[piece].wait());
    const Range range = pieceOf(mine, piece);
    for (int leaf = 0; leaf < tree.leaves(); ++leaf) {
      const int own = leaf - tree.firstLeaf(self);
      leaves[leaf] = arrival[leaf] == nullptr ? partials[own].data() + range.begin
                                              : arrival[leaf] + (range.begin - mine.begin);
    }
    std::byte* const at = out + (range.begin - mine.begin);
    fold(leaves, std::span(&at, 1), range.size() / sizeOf(type));
    ready(range);
  }
  return outgoing.wait();
}

Status allreduceDirect(const Reduction& reduction) {
  GroupCore::Turn& turn = reduction.turn;
  const Buffer result = reduction.result;
  const int self = turn.rank();
  const int ranks = turn.size();
  const std::vector<Range> ranges = chunksOf(reduction.partials[0].bytes().size(), ranks);
  // The elements of the result that a range of the sums is for.
  const std::size_t wider = sizeOf(reduction.sumType()) / sizeOf(result.type());
  const auto resultOf = [&](Range range) {
    return bytesOf(result, {range.begin / wider, range.end / wider});
  };
  // Results are numbered from here, above every step of the first half on every rank.
  const auto resultStep = [&](std::size_t piece) {
    return static_cast<std::uint32_t>(1U << 31 | piece);
  };

  // The others' chunks of `result` may still be read (as a partial sum) while results arrive.
  // Each is sent to its owner before the owner can fold it, so a result never overtakes it.
  Messages results(turn);
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t piece = 0; rank != self && piece < piecesIn(ranges[rank]); ++piece) {
      results.recv(rank, resultStep(piece), resultOf(pieceOf(ranges[rank], piece)));
    }
  }
  const auto own = reduction.rounds()
                       ? std::make_unique_for_overwrite<std::byte[]>(ranges[self].size())
                       : nullptr;
  std::byte* const sums = own != nullptr ? own.get() : result.data() + ranges[self].begin;
  std::size_t piece = 0;
  const auto sendOn = [&](Range range) {
    const std::span<std::byte> part = resultOf(range);
    if (reduction.rounds()) {
      wideningFor(result.type())
          ->round(part.data(),
                  reinterpret_cast<const float*>(sums + (range.begin - ranges[self].begin)),
                  part.size() / sizeOf(result.type()));
    }
    for (int distance = 1; distance < ranks; ++distance) {
      results.send((self + distance) % ranks, resultStep(piece), part);
    }
    ++piece;
  };
  COLLA_TRY(
      reduceDirect(turn, reduction.tree, reduction.partials, reduction.op, ranges, sums, sendOn));
  return results.wait();
}

}  // namespace colla::collective
