// What every allreduce algorithm is given, and how they cut a buffer among ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "colla/buffer.h"
#include "colla/collectives.h"
#include "collective/group_core.h"
#include "collective/sum_tree.h"

namespace colla::collective {

struct Reduction {
  GroupCore::Turn& turn;
  const SumTree& tree;
  std::span<const ConstBuffer> partials;  // This rank's leaves, each as long as `result`.
  // May be the memory of a partial. Of the partials' type, or of a 16-bit one where they are sums
  // of such (Folder::sumType()): then each element is rounded where its sum is formed.
  Buffer result;
  ReduceOp op;

  DataType sumType() const { return partials[0].type(); }
  bool rounds() const { return sumType() != result.type(); }
};

// Bytes [begin, end) of a buffer.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

inline constexpr std::size_t kLine = 64;

// Up to this many ranks everybody talks to everybody; beyond it, messages take O(log n) rounds.
inline constexpr int kFewRanks = 8;

// Chunk number `index` of `parts` equal ones. They start on multiples of a cache line, so that no
// line has two writers and no element is cut.
inline Range chunkOf(std::size_t bytes, std::size_t parts, std::size_t index) {
  const std::size_t size = ((bytes + parts - 1) / parts + kLine - 1) / kLine * kLine;
  return {std::min(bytes, size * index), std::min(bytes, size * (index + 1))};
}

// One chunk for each of `parts`.
inline std::vector<Range> chunksOf(std::size_t bytes, std::size_t parts) {
  std::vector<Range> chunks(parts);
  for (std::size_t index = 0; index < parts; ++index) chunks[index] = chunkOf(bytes, parts, index);
  return chunks;
}

// What is long travels in equal pieces of this size or more, so that folding or handing on one of
// them hides behind the arrival of the next. The last one may be shorter.
inline constexpr std::size_t kPieceBytes = 1 << 20;

inline std::size_t piecesIn(Range range) {
  return range.size() == 0 ? 0 : std::max<std::size_t>(1, range.size() / kPieceBytes);
}

inline Range pieceOf(Range range, std::size_t index) {
  const Range piece = chunkOf(range.size(), std::max<std::size_t>(1, piecesIn(range)), index);
  return {range.begin + piece.begin, range.begin + piece.end};
}

inline std::span<std::byte> bytesOf(Buffer buffer, Range range) {
  return buffer.bytes().subspan(range.begin, range.size());
}
inline std::span<const std::byte> bytesOf(ConstBuffer buffer, Range range) {
  return buffer.bytes().subspan(range.begin, range.size());
}

}  // namespace colla::collective
