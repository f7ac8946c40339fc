// One server's part of a model: parameters, the optimizer's slots, and the update.
//
// Sums follow the canonical order over slices and the optimizer is the workers' own, so the
// parameters have the bits that an allreduce and an update on every worker would give them. A
// block, or a range of a table's rows, is the work of one of the team's threads.
//
// Not thread safe: it is called by one thread, the team's first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "collective/rows.h"
#include "collective/sum_tree.h"
#include "optim/update_rule.h"
#include "ps/aligned_bytes.h"
#include "ps/declaration.h"
#include "ps/layout.h"
#include "ps/order.h"
#include "ps/squares.h"
#include "ps/team.h"

namespace colla::ps {

class Shard {
 public:
  // `rules`: of each entry. `tree`: of what sources bring (ps/push_plan.h). `layout` and `team`
  // outlive it.
  Shard(const Layout& layout, int server, std::vector<optim::UpdateRule> rules,
        collective::SumTree tree, Team& team);

  // Of a block: as many as the entry with the most has, whichever lie in it.
  int blockSlots() const { return blockSlots_; }
  int partitionSlots(int partition) const {
    return static_cast<int>(ruleOf(layout_.partitions()[partition].entry).slots().size());
  }
  // Numbers of the blocks and partitions that this server has.
  std::span<const int> blocks() const { return ownBlocks_; }
  std::span<const int> partitions() const { return ownPartitions_; }
  // Parameters (slot -1) or a slot, of an own block or partition.
  std::span<std::byte> block(int number, int slot = -1);
  std::span<float> partition(int number, int slot = -1);
  // Updates that each entry has had.
  std::span<std::int64_t> steps() { return steps_; }
  // Of parameters in own blocks.
  std::size_t bytes() const { return bytes_; }

  // The functions below are called from all threads of the team.

  // Puts, for each leaf of the tree, where its values of a block are; null: it has none.
  using Leaves = std::function<void(int block, std::span<const std::byte*> leaves)>;
  // Puts the rows of a table that each leaf has.
  using RowLeaves = std::function<void(int entry, std::span<collective::RowsView> leaves)>;
  // Adds the places that a block's parameters are to be copied to.
  using Sinks = std::function<void(int block, std::vector<std::byte*>& sinks)>;

  // One update, in one pass: a piece is summed, applied and handed out while it is in the cache.
  void update(const Terms& terms, const Leaves& leaves, const RowLeaves& rows, const Sinks& sinks);

  // The same in two passes, for clipping: first the sums and their squares.
  Squares sum(const Terms& terms, const Leaves& leaves, const RowLeaves& rows);
  void applySums(const Terms& terms, const Sinks& sinks);

  // Parameters as they are.
  void handOut(const Sinks& sinks);

  const collective::SumTree& tree() const { return tree_; }
  // The next epoch's workers and slices. Parameters, slots and steps stay.
  void reslice(collective::SumTree tree) { tree_ = std::move(tree); }

 private:
  struct Memory {
    AlignedBytes values;
    std::vector<AlignedBytes> slots;
    AlignedBytes sums;  // Where they are needed: see sum().
  };
  // Rows [begin, end) of a table, within a partition.
  struct Range {
    int partition;
    std::int64_t begin;
    std::int64_t end;
    collective::Rows sum;  // For clipping: see sum().
  };

  const optim::UpdateRule& ruleOf(int entry) const {
    return rules_[static_cast<std::size_t>(entry)];
  }
  void cutIntoRanges(int partition);
  std::vector<std::byte*> sinksOf(int block, const Sinks& sinks) const;
  // Elements that begin `offset` bytes into the block's memory.
  void handOut(const Memory& memory, std::size_t offset, std::size_t bytes,
               std::span<std::byte* const> sinks) const;

  // shard_update.cc.
  void beginUpdate(const Terms& terms);
  template <typename OnBlock, typename OnRange>
  void forEachPart(std::size_t bytes, const OnBlock& onBlock, const OnRange& onRange);
  void updateBlock(const Terms& terms, int number, const Leaves& leaves, const Sinks& sinks);
  void sumBlock(const Terms& terms, int number, const Leaves& leaves, Squares& squares);
  void applyBlock(const Terms& terms, int number, const Sinks& sinks);
  template <typename Use>
  void foldPiece(const Block& block, const Piece& piece, std::span<const std::byte* const> leaves,
                 const Use& use);
  void updateSums(const Terms& terms, Memory& memory, const Piece& piece, std::size_t offset,
                  std::span<std::byte> sums);
  template <typename T>
  void updatePiece(const Terms& terms, Memory& memory, std::size_t offset, const Piece& piece,
                   std::span<const T> sums);
  std::size_t widthOf(const Range& range) const;
  std::vector<collective::RowsView> leavesIn(const Range& range, const RowLeaves& rows) const;
  void updateRange(const Terms& terms, const Range& range, const RowLeaves& rows);
  void sumRange(Range& range, const RowLeaves& rows, Squares& squares);
  void applyRows(const Terms& terms, int partition, collective::Rows sum);
  bool present(const Terms& terms, const Piece& piece) const;

  const Layout& layout_;
  const std::vector<optim::UpdateRule> rules_;  // By entry.
  const int blockSlots_;
  collective::SumTree tree_;
  Team& team_;
  std::vector<int> ownBlocks_;
  std::vector<int> ownPartitions_;
  std::vector<Memory> blocks_;  // By number; empty for those of others.
  std::vector<Memory> tables_;  // By number of the partition, the same.
  std::vector<Range> ranges_;   // Of own partitions.
  std::vector<std::int64_t> steps_;
  std::size_t bytes_ = 0;
};

}  // namespace colla::ps
