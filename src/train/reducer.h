// Sums tensors over the slices of a step and over all workers, while backward still runs.
//
// Every entry is a tensor that each slice gives one value for: a parameter gives its gradient,
// which hooks take the moment autograd has it; a buffer (BatchNorm's statistics) is handed over
// with add(). A value is folded, in one pass from where it was computed, into a bucket that the
// workers of this host share; a bucket whose last slice is in leaves at once, on the group's
// progress thread. What is left at the end of the step is exchanged on the caller's own.
//
// A parameter whose gradients have few rows has no place in a bucket: its rows alone are kept, and
// exchanged at the end of the step (train/row_sums.h). Where nearly all rows have gradients that is
// more than the whole matrix: then this goes into a bucket after all, with a number for each row
// that tells whether it has a gradient. The sum has the same rows, and bits, either way.
//
// The order in which entries become ready is learned on rank 0 in the first step; the buckets
// follow it from its end on. Sums are canonical (colla/slices.h), so no bit depends on any of this.
//
// Not thread safe: one per worker. Errors are thrown as colla::Error.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colla/job.h"
#include "colla/slices.h"
#include "collective/partial_sums.h"
#include "train/bucket_plan.h"
#include "train/gradient_hooks.h"
#include "train/row_sums.h"

namespace colla::train {

class Reducer {
 public:
  struct Entry {
    std::string name;
    torch::Tensor tensor;
    bool parameter = true;   // Its gradient is taken by hooks.
    bool rowSparse = false;  // The gradient is sparse, of float32, and so is its sum.
    bool whole = false;      // It travels as a whole matrix all the same.
  };

  struct Options {
    ReduceOp op = ReduceOp::kSum;  // Or kAverage, over all slices.
    // Every backward() is a slice, in the order of the worker's; nobody calls begin and end.
    bool sliceIsBackward = false;
    std::size_t bucketBytes = std::size_t{4} << 20;
  };

  // The worker's slices are map.range(job.rank()). The entries' types and shapes must stay.
  Reducer(Job& job, SliceMap map, std::vector<Entry> entries, const Options& options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Gradients that arrive between the two belong to `slice`; slices come in ascending order. An
  // entry without a value in a slice counts as +0.0 there.
  void beginSlice(int slice);
  void endSlice();
  // For an entry that is no parameter. It has a sum if one slice's value was `changed`.
  void add(int entry, const torch::Tensor& value, bool changed);

  // Slices of this step that are not in yet.
  int missingSlices() const { return range_.end - next_; }

  // Returns once every entry's sum over all slices of all workers is there. Parameters' .grad is
  // theirs until the next backward.
  void finish();
  // After finish(): the sum; undefined when no slice had a value that counts.
  const torch::Tensor& sum(int entry) const { return sums_[entry]; }

  const SliceRange& slices() const { return range_; }

 private:
  struct SharedBucket;

  void build(std::span<const int> order);
  void learnOrder();
  void take(int entry, const torch::Tensor& value, bool counts);
  void put(int entry, const torch::Tensor& dense, bool counts);
  void takeRows(int entry, const torch::Tensor& value);
  void putRows(int entry, const collective::Rows& rows);
  void finishRows();
  void finishWhole();
  void complete(SharedBucket& bucket);
  void startReady();
  Status exchange(SharedBucket& bucket);

  Job& job_;
  const SliceMap map_;
  const SliceRange range_;
  const std::vector<Entry> entries_;  // The caller's, then those that tell rows of whole ones.
  std::vector<int> tells_;            // Number of that entry, by the caller's; -1: none.
  const Options options_;
  std::vector<Extent> extents_;
  std::vector<std::unique_ptr<SharedBucket>> buckets_;
  std::vector<std::pair<int, int>> places_;  // Bucket and member of each entry.
  std::vector<torch::Tensor> views_;         // The memory of the sums.
  std::vector<int> matrices_;                // Number of each entry in rows_; -1: in a bucket.
  std::optional<RowSums> rows_;
  std::vector<torch::Tensor> sums_;
  std::optional<int> slice_;
  int next_;                 // The slice after those that are in.
  std::size_t started_ = 0;  // Buckets under way, in order.
  std::vector<int> ready_;   // Entries in the order of readiness.
  enum class Order { kUnknown, kSeen, kLearned } order_ = Order::kUnknown;
  std::optional<GradientHooks> hooks_;  // Goes first: it hands gradients to the rest.
};

}  // namespace colla::train
