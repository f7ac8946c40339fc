#include "ps/shard.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/check.h"
#include "collective/fold.h"
#include "optim/norm.h"

namespace colla::ps {
namespace {

// Elements that are summed and used at once: they stay in the cache. A norm block, so that squares
// can be taken on the way.
constexpr std::size_t kChunk = optim::kNormBlock;

template <typename T>
std::span<T> elements(std::span<std::byte> bytes, std::size_t offset, std::size_t count) {
  return {reinterpret_cast<T*>(bytes.data() + offset), count};
}

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

AlignedBytes::AlignedBytes(std::size_t size) : size_(size) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t rounded =
      std::max((size + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_.get(), 0, rounded);
}

void AlignedBytes::Free::operator()(std::byte* data) const { std::free(data); }

Shard::Shard(const Layout& layout, int server, optim::UpdateRule rule, const SliceMap& map)
    : layout_(layout),
      rule_(std::move(rule)),
      tree_(collective::SumTree::of(map)),
      blocks_(layout.blocks().size()),
      tables_(layout.partitions().size()),
      steps_(layout.entries().size()) {
  const auto allocate = [&](Memory& memory, std::size_t bytes) {
    memory.values = AlignedBytes(bytes);
    for (std::size_t slot = 0; slot < rule_.slots().size(); ++slot) {
      memory.slots.emplace_back(bytes);
    }
  };
  for (int number = 0; number < static_cast<int>(blocks_.size()); ++number) {
    const Block& block = layout.blocks()[number];
    if (block.server != server) continue;
    ownBlocks_.push_back(number);
    allocate(blocks_[number], block.bytes);
    for (const Piece& piece : block.pieces) {
      for (std::size_t slot = 0; slot < rule_.slots().size(); ++slot) {
        const std::span<std::byte> memory = blocks_[number].slots[slot].bytes();
        const double initial = rule_.slots()[slot].initial;
        const std::size_t offset = piece.offset - block.offset;
        if (isFloat64(layout.entries()[piece.entry].type)) {
          std::ranges::fill(elements<double>(memory, offset, piece.count), initial);
        } else if (layout.entries()[piece.entry].type == DataType::kFloat32) {
          std::ranges::fill(elements<float>(memory, offset, piece.count),
                            static_cast<float>(initial));
        }
      }
    }
  }
  for (int number = 0; number < static_cast<int>(tables_.size()); ++number) {
    const Partition& part = layout.partitions()[number];
    if (part.server != server) continue;
    ownPartitions_.push_back(number);
    const std::size_t count =
        static_cast<std::size_t>(part.end - part.begin) * layout.entries()[part.entry].width();
    allocate(tables_[number].memory, count * sizeof(float));
    for (std::size_t slot = 0; slot < rule_.slots().size(); ++slot) {
      std::ranges::fill(partition(number, static_cast<int>(slot)),
                        static_cast<float>(rule_.slots()[slot].initial));
    }
  }
}

std::span<std::byte> Shard::block(int number, int slot) {
  Memory& memory = blocks_[number];
  return (slot < 0 ? memory.values : memory.slots[slot]).bytes();
}

std::span<float> Shard::partition(int number, int slot) {
  Memory& memory = tables_[number].memory;
  const std::span<std::byte> bytes = (slot < 0 ? memory.values : memory.slots[slot]).bytes();
  return elements<float>(bytes, 0, bytes.size() / sizeof(float));
}

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
void Shard::foldPiece(const Block& block, const Piece& piece, std::span<const std::byte*> leaves,
                      const Use& use) {
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
  std::array<std::span<T>, optim::kMaxSlots> slots;
  for (std::size_t slot = 0; slot < memory.slots.size(); ++slot) {
    slots[slot] = elements<T>(memory.slots[slot].bytes(), offset, sums.size());
  }
  const optim::Update update{.step = steps_[piece.entry],
                             .lr = learningRate(rule_.options()) * terms.factor,
                             .gradScale = terms.gradScale};
  rule_.apply<T>(update, values, sums, std::span(slots).first(memory.slots.size()));
}

// Every piece that somebody has a value for: summed, chunk by chunk, for `use`; or, if it is only
// to be copied, from the first who has it to `copies`.
template <typename Use>
void Shard::forEachSum(const Terms& terms, const Leaves& leavesOf, AlignedBytes Memory::*copies,
                       const Use& use) {
  std::vector<const std::byte*> leaves(static_cast<std::size_t>(tree_.leaves()));
  for (const int number : ownBlocks_) {
    const Block& block = layout_.blocks()[number];
    Memory& memory = blocks_[number];
    leavesOf(number, leaves);
    for (const Piece& piece : block.pieces) {
      if (!present(terms, piece)) continue;
      const Entry& entry = layout_.entries()[piece.entry];
      const std::size_t offset = piece.offset - block.offset;
      const std::size_t size = sizeOf(entry.type);
      if (entry.kind == Kind::kCopy) {
        copyFirst(leaves, (memory.*copies).bytes(), offset, piece.count * size);
        continue;
      }
      foldPiece(block, piece, leaves, [&](std::size_t from, std::span<std::byte> sums) {
        use(memory, piece, from, offset + from * size, sums);
      });
    }
  }
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

void Shard::update(const Terms& terms, const Leaves& leavesOf, const RowLeaves& rowsOf) {
  beginUpdate(terms);
  forEachSum(terms, leavesOf, &Memory::values,
             [&](Memory& memory, const Piece& piece, std::size_t /*from*/, std::size_t offset,
                 std::span<std::byte> sums) { updateSums(terms, memory, piece, offset, sums); });
  for (const int number : ownPartitions_) {
    foldTable(number, rowsOf);
    applyRows(terms, number);
  }
}

void Shard::foldTable(int number, const RowLeaves& rowsOf) {
  std::vector<collective::Rows> rows(static_cast<std::size_t>(tree_.leaves()));
  rowsOf(number, rows);
  tables_[number].sum = collective::foldRows(
      tree_, std::move(rows), layout_.entries()[layout_.partitions()[number].entry].width());
}

Squares Shard::sum(const Terms& terms, const Leaves& leavesOf, const RowLeaves& rowsOf) {
  Squares squares;
  for (const int number : ownBlocks_) {
    Memory& memory = blocks_[number];
    if (memory.sums.bytes().empty()) memory.sums = AlignedBytes(layout_.blocks()[number].bytes);
  }
  forEachSum(terms, leavesOf, &Memory::sums,
             [&](Memory& memory, const Piece& piece, std::size_t from, std::size_t offset,
                 std::span<std::byte> sums) {
               std::memcpy(memory.sums.bytes().data() + offset, sums.data(), sums.size());
               const Entry& entry = layout_.entries()[piece.entry];
               if (entry.kind != Kind::kParameter) return;
               squares.add(
                   piece.entry, piece.begin + from,
                   isFloat64(entry.type) ? sumOfSquares<double>(sums) : sumOfSquares<float>(sums));
             });
  for (const int number : ownPartitions_) {
    foldTable(number, rowsOf);
    const Partition& part = layout_.partitions()[number];
    const std::size_t width = layout_.entries()[part.entry].width();
    const collective::Rows& sum = tables_[number].sum;
    for (std::size_t i = 0; i < sum.rows.size(); ++i) {
      squares.add(
          part.entry, static_cast<std::size_t>(sum.rows[i]) * width,
          optim::sumOfSquares(std::span<const float>(sum.values).subspan(i * width, width)));
    }
  }
  return squares;
}

void Shard::applySums(const Terms& terms) {
  beginUpdate(terms);
  for (const int number : ownBlocks_) {
    const Block& block = layout_.blocks()[number];
    Memory& memory = blocks_[number];
    for (const Piece& piece : block.pieces) {
      if (!present(terms, piece)) continue;
      const Entry& entry = layout_.entries()[piece.entry];
      const std::size_t offset = piece.offset - block.offset;
      const std::span<std::byte> sums =
          memory.sums.bytes().subspan(offset, piece.count * sizeOf(entry.type));
      if (entry.kind == Kind::kCopy) {
        std::ranges::copy(sums,
                          memory.values.bytes().begin() + static_cast<std::ptrdiff_t>(offset));
      } else {
        updateSums(terms, memory, piece, offset, sums);
      }
    }
  }
  for (const int number : ownPartitions_) applyRows(terms, number);
}

// Rows are numbered from the partition's first.
void Shard::applyRows(const Terms& terms, int number) {
  Table& table = tables_[number];
  const Partition& part = layout_.partitions()[number];
  if (terms.present[static_cast<std::size_t>(part.entry)] == 0 || table.sum.rows.empty()) return;
  for (std::int64_t& row : table.sum.rows) row -= part.begin;
  std::array<std::span<float>, optim::kMaxSlots> slots;
  for (int slot = 0; slot < this->slots(); ++slot) slots[slot] = partition(number, slot);
  const optim::Update update{.step = steps_[part.entry],
                             .lr = learningRate(rule_.options()) * terms.factor,
                             .gradScale = terms.gradScale};
  rule_.applyRows<float>(update, partition(number), layout_.entries()[part.entry].width(),
                         table.sum.rows, table.sum.values,
                         std::span(slots).first(static_cast<std::size_t>(this->slots())));
  table.sum = {};
}

}  // namespace colla::ps
