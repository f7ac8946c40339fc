// One server's part of a model: parameters, the optimizer's slots, and the update.
//
// Sums follow the canonical order over slices and the optimizer is the workers' own, so the
// parameters have the bits that an allreduce and an update on every worker would give them.
//
// Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "colla/slices.h"
#include "collective/rows.h"
#include "collective/sum_tree.h"
#include "optim/update_rule.h"
#include "ps/layout.h"
#include "ps/squares.h"

namespace colla::ps {

// Numbers of one update, the same on every server.
struct Terms {
  std::vector<std::uint8_t> present;  // By entry: whether somebody brought a value for it.
  double factor = 1;                  // Of the learning rate: the schedule's.
  double gradScale = 1;               // What the sum of gradients is multiplied by.
  double meanScale = 1;               // The same for means.
};

// Memory from a 64-byte boundary, zeroed.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t size);
  std::span<std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

class Shard {
 public:
  // `layout` outlives it.
  Shard(const Layout& layout, int server, optim::UpdateRule rule, const SliceMap& map);

  int slots() const { return static_cast<int>(rule_.slots().size()); }
  // Numbers of the blocks and partitions that this server has.
  std::span<const int> blocks() const { return ownBlocks_; }
  std::span<const int> partitions() const { return ownPartitions_; }
  // Parameters (slot -1) or a slot, of an own block or partition.
  std::span<std::byte> block(int number, int slot = -1);
  std::span<float> partition(int number, int slot = -1);
  // Updates that each entry has had.
  std::span<std::int64_t> steps() { return steps_; }

  // Puts, for each leaf of the tree, where its values of a block are; null: it has none.
  using Leaves = std::function<void(int block, std::span<const std::byte*> leaves)>;
  // Puts the rows that each leaf has of a partition.
  using RowLeaves = std::function<void(int partition, std::span<collective::Rows> leaves)>;

  // One update, in one pass.
  void update(const Terms& terms, const Leaves& leaves, const RowLeaves& rows);

  // The same in two passes, for clipping: first the sums and their squares.
  Squares sum(const Terms& terms, const Leaves& leaves, const RowLeaves& rows);
  void applySums(const Terms& terms);

  const collective::SumTree& tree() const { return tree_; }

 private:
  struct Memory {
    AlignedBytes values;
    std::vector<AlignedBytes> slots;
    AlignedBytes sums;  // Where they are needed: see sum().
  };
  struct Table {
    Memory memory;
    collective::Rows sum;
  };

  void beginUpdate(const Terms& terms);
  template <typename T>
  void updatePiece(const Terms& terms, Memory& memory, std::size_t offset, const Piece& piece,
                   std::span<const T> sums);
  void updateSums(const Terms& terms, Memory& memory, const Piece& piece, std::size_t offset,
                  std::span<std::byte> sums);
  template <typename Use>
  void forEachSum(const Terms& terms, const Leaves& leaves, AlignedBytes Memory::*copies,
                  const Use& use);
  template <typename Use>
  void foldPiece(const Block& block, const Piece& piece, std::span<const std::byte*> leaves,
                 const Use& use);
  void foldTable(int number, const RowLeaves& rowsOf);
  void applyRows(const Terms& terms, int number);
  bool present(const Terms& terms, const Piece& piece) const;

  const Layout& layout_;
  const optim::UpdateRule rule_;
  const collective::SumTree tree_;
  std::vector<int> ownBlocks_;
  std::vector<int> ownPartitions_;
  std::vector<Memory> blocks_;  // By number; empty for those of others.
  std::vector<Table> tables_;   // By number of the partition, the same.
  std::vector<std::int64_t> steps_;
};

}  // namespace colla::ps
