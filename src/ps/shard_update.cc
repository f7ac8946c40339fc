// What becomes of gradients. Every function here works on one block or range alone, so threads can
// share them out; the order of additions is the tree's, whoever does them.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "collective/fold.h"
#include "optim/norm.h"
#include "ps/shard.h"

namespace colla::ps {
namespace {

// Elements that are summed and used at once: they stay in the cache. A norm block, so that squares
// can be taken on the way.
constexpr std::size_t kChunk = optim::kNormBlock;

bool isFloat64(DataType type) { return type == DataType::kFloat64; }

template <typename T>
double sumOfSquares(std::span<std::byte> bytes) {
  return optim::sumOfSquares<T>(
      {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)});
}

// What the first leaf that is there has.
void copyFirst(std::span<const std::byte* const> leaves, std::span<std::byte> out,
               std::size_t offset, std::size_t bytes) {
  const auto first = std::ranges::find_if(leaves, [](const auto* leaf) { return leaf != nullptr; });
  if (first != leaves.end()) std::memcpy(out.data() + offset, *first + offset, bytes);
}

}  // namespace

bool Shard::present(const Terms& terms, const Piece& piece) const {
  return terms.present[static_cast<std::size_t>(piece.entry)] != 0;
}

void Shard::beginUpdate(const Terms& terms) {
  for (std::size_t entry = 0; entry < steps_.size(); ++entry) {
    if (terms.present[entry] != 0) ++steps_[entry];
  }
}

// Sums a piece along the tree, chunk by chunk: use(first element, sums). `leaves` are of the block.
template <typename Use>
void Shard::foldPiece(const Block& block, const Piece& piece,
                      std::span<const std::byte* const> leaves, const Use& use) {
  alignas(64) static constexpr std::array<std::byte, kChunk * sizeof(double)> kZeros{};
  alignas(64) std::array<std::byte, kChunk * sizeof(double)> sums;
  std::vector<const std::byte*> at(leaves.size());
  const DataType type = layout_.entries()[piece.entry].type;
  const collective::Folder fold(tree_, type, ReduceOp::kSum);
  const collective::Kernels& kernels = collective::kernelsFor(type, ReduceOp::kSum);
  const std::size_t size = sizeOf(type);
  std::byte* const out = sums.data();
  const auto alone = [&]() -> const std::byte* {
    const auto there = [](const std::byte* leaf) { return leaf != nullptr; };
    return std::ranges::count_if(leaves, there) == 1 ? *std::ranges::find_if(leaves, there)
                                                     : nullptr;
  }();
  for (std::size_t first = 0; first < piece.count; first += kChunk) {
    const std::size_t count = std::min(kChunk, piece.count - first);
    const std::size_t offset = piece.offset - block.offset + first * size;
    if (alone != nullptr) {
      kernels.finish(out, alone + offset, count, 1);
    } else {
      for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
        at[leaf] = leaves[leaf] == nullptr ? kZeros.data() : leaves[leaf] + offset;
      }
      fold(at, {&out, 1}, count);
    }
    use(first, std::span<std::byte>(sums).first(count * size));
  }
}

// What becomes of elements that begin `offset` bytes into the block's memory.
template <typename T>
void Shard::updatePiece(const Terms& terms, Memory& memory, std::size_t offset, const Piece& piece,
                        std::span<const T> sums) {
  const std::span<T> values = elements<T>(memory.values.bytes(), offset, sums.size());
  const Entry& entry = layout_.entries()[piece.entry];
  if (entry.kind == Kind::kMean || entry.kind == Kind::kSum) {
    const T scale = entry.kind == Kind::kMean ? static_cast<T>(terms.meanScale) : T{1};
    for (std::size_t i = 0; i < sums.size(); ++i) values[i] = sums[i] * scale;
    return;
  }
  const optim::UpdateRule& rule = ruleOf(piece.entry);
  std::array<std::span<T>, optim::kMaxSlots> slots;
  for (std::size_t slot = 0; slot < rule.slots().size(); ++slot) {
    slots[slot] = elements<T>(memory.slots[slot].bytes(), offset, sums.size());
  }
  const optim::Update update{.step = steps_[piece.entry],
                             .lr = learningRate(rule.options()) * terms.factor,
                             .gradScale = terms.gradScale};
  rule.apply<T>(update, values, sums, std::span(slots).first(rule.slots().size()));
}

// Sums that begin `offset` bytes into the memory of piece's block.
void Shard::updateSums(const Terms& terms, Memory& memory, const Piece& piece, std::size_t offset,
                       std::span<std::byte> sums) {
  if (isFloat64(layout_.entries()[piece.entry].type)) {
    updatePiece<double>(terms, memory, offset, piece,
                        elements<double>(sums, 0, sums.size() / sizeof(double)));
  } else {
    updatePiece<float>(terms, memory, offset, piece,
                       elements<float>(sums, 0, sums.size() / sizeof(float)));
  }
}

void Shard::updateBlock(const Terms& terms, int number, const Leaves& leavesOf,
                        const Sinks& sinksFor) {
  const Block& block = layout_.blocks()[number];
  Memory& memory = blocks_[number];
  std::vector<const std::byte*> leaves(static_cast<std::size_t>(tree_.leaves()));
  leavesOf(number, leaves);
  const std::vector<std::byte*> sinks = sinksOf(number, sinksFor);
  for (const Piece& piece : block.pieces) {
    const Entry& entry = layout_.entries()[piece.entry];
    const std::size_t offset = piece.offset - block.offset;
    const std::size_t size = sizeOf(entry.type);
    const bool changes = present(terms, piece);
    if (changes && entry.kind != Kind::kCopy) {
      foldPiece(block, piece, leaves, [&](std::size_t from, std::span<std::byte> sums) {
        updateSums(terms, memory, piece, offset + from * size, sums);
        handOut(memory, offset + from * size, sums.size(), sinks);
      });
      continue;
    }
    if (changes) copyFirst(leaves, memory.values.bytes(), offset, piece.count * size);
    handOut(memory, offset, piece.count * size, sinks);
  }
}

void Shard::sumBlock(const Terms& terms, int number, const Leaves& leavesOf, Squares& squares) {
  const Block& block = layout_.blocks()[number];
  Memory& memory = blocks_[number];
  if (memory.sums.bytes().empty()) memory.sums = AlignedBytes(block.bytes);
  std::vector<const std::byte*> leaves(static_cast<std::size_t>(tree_.leaves()));
  leavesOf(number, leaves);
  for (const Piece& piece : block.pieces) {
    if (!present(terms, piece)) continue;
    const Entry& entry = layout_.entries()[piece.entry];
    const std::size_t offset = piece.offset - block.offset;
    const std::size_t size = sizeOf(entry.type);
    if (entry.kind == Kind::kCopy) {
      copyFirst(leaves, memory.sums.bytes(), offset, piece.count * size);
      continue;
    }
    foldPiece(block, piece, leaves, [&](std::size_t from, std::span<std::byte> sums) {
      std::memcpy(memory.sums.bytes().data() + offset + from * size, sums.data(), sums.size());
      if (entry.kind != Kind::kParameter) return;
      squares.add(piece.entry, piece.begin + from,
                  isFloat64(entry.type) ? sumOfSquares<double>(sums) : sumOfSquares<float>(sums));
    });
  }
}

void Shard::applyBlock(const Terms& terms, int number, const Sinks& sinksFor) {
  const Block& block = layout_.blocks()[number];
  Memory& memory = blocks_[number];
  const std::vector<std::byte*> sinks = sinksOf(number, sinksFor);
  for (const Piece& piece : block.pieces) {
    const Entry& entry = layout_.entries()[piece.entry];
    const std::size_t begin = piece.offset - block.offset;
    const std::size_t end = begin + piece.count * sizeOf(entry.type);
    for (std::size_t at = begin; at < end; at += kChunk * sizeOf(entry.type)) {
      const std::size_t bytes = std::min(kChunk * sizeOf(entry.type), end - at);
      const bool changes = present(terms, piece);
      if (changes && entry.kind == Kind::kCopy) {
        std::memcpy(memory.values.bytes().data() + at, memory.sums.bytes().data() + at, bytes);
      } else if (changes) {
        updateSums(terms, memory, piece, at, memory.sums.bytes().subspan(at, bytes));
      }
      handOut(memory, at, bytes, sinks);
    }
  }
}

std::vector<collective::RowsView> Shard::leavesIn(const Range& range,
                                                  const RowLeaves& rowsOf) const {
  std::vector<collective::RowsView> leaves(static_cast<std::size_t>(tree_.leaves()));
  const int entry = layout_.partitions()[range.partition].entry;
  rowsOf(entry, leaves);
  for (auto& leaf : leaves) leaf = leaf.within(range.begin, range.end, widthOf(range));
  return leaves;
}

std::size_t Shard::widthOf(const Range& range) const {
  return layout_.entries()[layout_.partitions()[range.partition].entry].width();
}

// A few rows are summed and applied at a time: their sums stay in the cache.
void Shard::updateRange(const Terms& terms, const Range& range, const RowLeaves& rowsOf) {
  const std::size_t width = widthOf(range);
  const std::size_t most = std::max<std::size_t>(1, kChunk / width);
  std::vector<collective::RowsView> left = leavesIn(range, rowsOf);
  std::vector<collective::RowsView> some(left.size());
  for (std::int64_t begin = range.begin; begin < range.end;) {
    std::int64_t end = range.end;
    for (const auto& leaf : left) {
      if (leaf.rows.size() > most) end = std::min(end, leaf.rows[most]);
    }
    for (std::size_t i = 0; i < left.size(); ++i) {
      some[i] = left[i].within(begin, end, width);
      left[i] = left[i].within(end, range.end, width);
    }
    applyRows(terms, range.partition, collective::foldRows(tree_, some, width));
    begin = end;
  }
}

void Shard::sumRange(Range& range, const RowLeaves& rowsOf, Squares& squares) {
  const std::size_t width = widthOf(range);
  const int entry = layout_.partitions()[range.partition].entry;
  range.sum = collective::foldRows(tree_, leavesIn(range, rowsOf), width);
  const std::span<const float> values = range.sum.values;
  for (std::size_t i = 0; i < range.sum.rows.size(); ++i) {
    squares.add(entry, static_cast<std::size_t>(range.sum.rows[i]) * width,
                optim::sumOfSquares(values.subspan(i * width, width)));
  }
}

// Rows are numbered from the partition's first.
void Shard::applyRows(const Terms& terms, int number, collective::Rows sum) {
  const Partition& part = layout_.partitions()[number];
  if (terms.present[static_cast<std::size_t>(part.entry)] == 0 || sum.rows.empty()) return;
  for (std::int64_t& row : sum.rows) row -= part.begin;
  const optim::UpdateRule& rule = ruleOf(part.entry);
  std::array<std::span<float>, optim::kMaxSlots> slots;
  for (int slot = 0; slot < partitionSlots(number); ++slot) slots[slot] = partition(number, slot);
  const optim::Update update{.step = steps_[part.entry],
                             .lr = learningRate(rule.options()) * terms.factor,
                             .gradScale = terms.gradScale};
  rule.applyRows<float>(update, partition(number), layout_.entries()[part.entry].width(), sum.rows,
                        sum.values, std::span(slots).first(rule.slots().size()));
}

// Calls one of both for each own block and range, with its number among all. `bytes`: of gradients.
template <typename OnBlock, typename OnRange>
void Shard::forEachPart(std::size_t bytes, const OnBlock& onBlock, const OnRange& onRange) {
  team_.forEach(ownBlocks_.size() + ranges_.size(), bytes, [&](std::size_t i) {
    if (i < ownBlocks_.size()) {
      onBlock(ownBlocks_[i], i);
    } else {
      onRange(ranges_[i - ownBlocks_.size()], i);
    }
  });
}

void Shard::update(const Terms& terms, const Leaves& leaves, const RowLeaves& rows,
                   const Sinks& sinks) {
  beginUpdate(terms);
  forEachPart(
      terms.bytes, [&](int block, std::size_t) { updateBlock(terms, block, leaves, sinks); },
      [&](Range& range, std::size_t) { updateRange(terms, range, rows); });
}

Squares Shard::sum(const Terms& terms, const Leaves& leaves, const RowLeaves& rows) {
  std::vector<Squares> squares(ownBlocks_.size() + ranges_.size());
  forEachPart(
      terms.bytes, [&](int block, std::size_t i) { sumBlock(terms, block, leaves, squares[i]); },
      [&](Range& range, std::size_t i) { sumRange(range, rows, squares[i]); });
  Squares all;
  for (const Squares& part : squares) all.add(part);
  return all;
}

void Shard::applySums(const Terms& terms, const Sinks& sinks) {
  beginUpdate(terms);
  forEachPart(
      terms.bytes, [&](int block, std::size_t) { applyBlock(terms, block, sinks); },
      [&](Range& range, std::size_t) {
        applyRows(terms, range.partition, std::exchange(range.sum, {}));
      });
}

}  // namespace colla::ps
