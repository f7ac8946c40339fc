// Collectives that only move bytes.
//
// Broadcast goes down a binomial tree rooted at `root`, in pieces, so that a rank hands one on
// while the next arrives. A barrier is a dissemination: after round k everybody has heard, at
// second hand or further, of 2^(k+1) ranks. Allgather is direct where the parts are large or the
// ranks few, and otherwise doubles what a rank holds in each round (Bruck).
#include <algorithm>
#include <bit>
#include <deque>
#include <memory>
#include <vector>

#include "collective/algorithms.h"
#include "collective/messages.h"

namespace colla::collective {
namespace {

constexpr std::size_t kLargePart = 64 << 10;

Status allgatherBruck(GroupCore::Turn& turn, std::span<std::byte> all, std::size_t part) {
  const int self = turn.rank();
  const int ranks = turn.size();
  // held: the parts of self, self + 1, … in this order.
  const auto held = std::make_unique_for_overwrite<std::byte[]>(all.size());
  std::copy_n(all.data() + self * part, part, held.get());
  std::uint32_t step = 0;
  for (int have = 1; have < ranks; have *= 2, ++step) {
    const std::size_t bytes = std::min(have, ranks - have) * part;
    Messages messages(turn);
    messages.recv((self + have) % ranks, step, {held.get() + have * part, bytes});
    messages.send((self - have % ranks + ranks) % ranks, step, {held.get(), bytes});
    COLLA_TRY(messages.wait());
  }
  for (int i = 0; i < ranks; ++i) {
    std::copy_n(held.get() + i * part, part, all.data() + ((self + i) % ranks) * part);
  }
  return {};
}

}  // namespace

Status broadcastMessages(GroupCore::Turn& turn, std::span<std::byte> data, int root,
                         std::uint32_t firstStep) {
  const auto ranks = static_cast<unsigned>(turn.size());
  const auto self = static_cast<unsigned>(turn.rank() - root + turn.size()) % ranks;
  const auto absolute = [&](unsigned rank) { return static_cast<int>((rank + root) % ranks); };
  // Below rank r (counted from the root) hang r + 2^k for all 2^k above r's own highest bit.
  std::vector<int> children;
  for (unsigned bit = self == 0 ? 1 : std::bit_floor(self) << 1; self + bit < ranks; bit <<= 1) {
    children.push_back(absolute(self + bit));
  }
  std::ranges::reverse(children);  // The deepest subtree first.

  const Range all{0, data.size()};
  const std::size_t pieces = std::max<std::size_t>(1, piecesIn(all));  // An empty one, too.
  const auto bytesOfPiece = [&](std::size_t index) {
    const Range piece = pieceOf(all, index);
    return data.subspan(piece.begin, piece.size());
  };
  std::deque<Messages> incoming;
  for (std::size_t piece = 0; self != 0 && piece < pieces; ++piece) {
    incoming.emplace_back(turn).recv(absolute(self - std::bit_floor(self)),
                                     static_cast<std::uint32_t>(firstStep + piece),
                                     bytesOfPiece(piece));
  }
  Messages outgoing(turn);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    if (self != 0) COLLA_TRY(incoming[piece].wait());
    for (const int child : children) {
      outgoing.send(child, static_cast<std::uint32_t>(firstStep + piece), bytesOfPiece(piece));
    }
  }
  return outgoing.wait();
}

Status barrierMessages(GroupCore::Turn& turn, std::uint32_t firstStep) {
  const int self = turn.rank();
  const int ranks = turn.size();
  std::uint32_t step = firstStep;
  for (int distance = 1; distance < ranks; distance *= 2, ++step) {
    Messages messages(turn);
    messages.recv((self - distance + ranks) % ranks, step, {});
    messages.send((self + distance) % ranks, step, {});
    COLLA_TRY(messages.wait());
  }
  return {};
}

Status exchangeMessages(GroupCore::Turn& turn, std::span<const std::span<const std::byte>> outgoing,
                        std::span<const std::span<std::byte>> incoming) {
  const int self = turn.rank();
  const int ranks = turn.size();
  Messages messages(turn);
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank != self && incoming[rank].data() != nullptr) messages.recv(rank, 0, incoming[rank]);
  }
  for (int distance = 1; distance < ranks; ++distance) {
    const int rank = (self + distance) % ranks;
    if (outgoing[rank].data() != nullptr) messages.send(rank, 0, outgoing[rank]);
  }
  if (outgoing[self].size() != incoming[self].size()) {
    return {StatusCode::kMismatch, "a rank sends itself another size than it receives"};
  }
  if (!outgoing[self].empty() && outgoing[self].data() != incoming[self].data()) {
    std::ranges::copy(outgoing[self], incoming[self].data());
  }
  return messages.wait();
}

Status allgatherDirect(GroupCore::Turn& turn, std::span<std::byte> all, std::size_t part) {
  const int ranks = turn.size();
  const std::vector<std::span<const std::byte>> outgoing(
      ranks, present(all.subspan(turn.rank() * part, part)));
  std::vector<std::span<std::byte>> incoming(ranks);
  for (int rank = 0; rank < ranks; ++rank) incoming[rank] = present(all.subspan(rank * part, part));
  return exchangeMessages(turn, outgoing, incoming);
}

Status allgatherMessages(GroupCore::Turn& turn, std::span<std::byte> all, std::size_t part) {
  const bool direct = turn.size() <= kFewRanks || part >= kLargePart;
  return direct ? allgatherDirect(turn, all, part) : allgatherBruck(turn, all, part);
}

}  // namespace colla::collective
