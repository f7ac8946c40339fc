// What the workers of an epoch have brought for their present steps: where it lies, and whether all
// of it is there and finite.
//
// A worker of this host shares its memory, and its gradients stay where it has folded them; those
// of other hosts are received into memory here. Not thread safe, but for the functions that
// leaves() and rows() return: the threads of the team call these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "colla/status.h"
#include "ps/aligned_bytes.h"
#include "ps/layout.h"
#include "ps/push_plan.h"
#include "ps/pushed_rows.h"
#include "ps/shard.h"
#include "ps/team.h"
#include "transport/shared_memory.h"

namespace colla::ps {

class Gradients {
 public:
  // All of them outlive it.
  Gradients(const Layout& layout, const Shard& shard, const PushPlan& plan, Team& team,
            int workers);

  // The worker's memory, seen from here: its parameters', then each partial sum's.
  void attach(int worker, std::vector<transport::Mapping> areas);
  // Where the worker's parameters go; null if they are sent.
  std::byte* areaOf(int worker) const;

  // Where the messages of a pushed block go, one for each partial sum; none if it lies in the
  // worker's memory. kInvalidArgument for a block that this server does not have.
  Result<std::vector<std::span<std::byte>>> placesFor(int worker, int block);
  // The block is complete. It is looked through at the next check().
  void push(int worker, int block, std::int64_t step);
  // Rows of a table; `payload` or `mapping` holds their bytes in place. Returns how many they are.
  std::size_t pushRows(int worker, int entry, std::int64_t step, std::span<const std::byte> bytes,
                       std::vector<std::byte> payload, transport::Mapping mapping);

  // Looks through the blocks that have come since the last call. A number that is not finite would
  // spread into everybody's parameters.
  void check();
  // The worker's step ends: kInvalidArgument, with what is wrong, if something is missing or not
  // finite; nothing of the step is left then. `empty`: it need not bring anything.
  Status end(int worker, bool empty);
  // The step is over.
  void forget(int worker);

  // What the shard sums: the gradients of `take`, which outlives both.
  Shard::Leaves leaves(std::span<const int> take) const;
  Shard::RowLeaves rows(std::span<const int> take) const;
  std::size_t bytesOf(std::span<const int> take) const;

 private:
  struct TableRows {
    std::vector<PushedRows> leaves;
    std::vector<std::byte> payload;  // One of both holds their values.
    transport::Mapping mapping;
  };
  struct Worker {
    std::vector<transport::Mapping> areas;            // Empty: it sends messages.
    std::map<int, std::vector<AlignedBytes>> staged;  // By block: partial sums that were sent.
    std::map<int, TableRows> rows;                    // By entry.
    std::set<int> pushed;                             // Blocks.
    Status refusal;                                   // What is wrong with them.
  };
  struct Pushed {
    int worker;
    int block;
    std::int64_t step;
  };

  int leavesOf(int worker) const { return shard_.tree().leavesOf(plan_.sourceOf(worker)); }
  int firstLeaf(int worker) const { return shard_.tree().firstLeaf(plan_.sourceOf(worker)); }
  const std::byte* at(int worker, int block, int leaf) const;
  Status lookThrough(const Pushed& pushed) const;

  const Layout& layout_;
  const Shard& shard_;
  const PushPlan& plan_;
  Team& team_;
  std::vector<Worker> workers_;
  std::vector<Pushed> unchecked_;
};

}  // namespace colla::ps
