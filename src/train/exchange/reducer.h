// Sums tensors over the slices of a step and over all workers, while backward still runs.
//
// Every entry is a tensor that each slice gives one value for: a parameter gives its gradient,
// which hooks take the moment autograd has it; everything else (BatchNorm's statistics, the loss)
// is handed over with add(). A value is folded, in one pass from where it was computed, into a
// bucket that the workers of this host share. A bucket whose last slice is in leaves at once, on
// the group's progress thread. What is left at the end of the step travels together, on the
// caller's own thread.
//
// A parameter whose gradients have few rows has no place in a bucket: its rows alone are kept, and
// exchanged at the end of the step (train/exchange/row_sums.h). Where nearly all rows have
// gradients that is more than the whole matrix: then the matrix travels dense, in a bucket, beside
// a number for each row that says whether it has a gradient. The sum has the same rows, and bits,
// either way.
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

#include "colla/slices.h"
#include "collective/allreduce.h"
#include "collective/partial_sums.h"
#include "train/exchange/bucket_plan.h"
#include "train/exchange/gradient_hooks.h"
#include "train/exchange/parameter.h"
#include "train/exchange/row_sums.h"
#include "train/exchange/workers.h"
#include "train/metrics.h"

namespace colla::train {

class Reducer {
 public:
  enum class Kind {
    kGradient,  // The tensor is a parameter, whose gradient hooks take.
    kSum,       // add() gives its values.
    kFirst,     // The same, but slice 0's counts alone: for what can't be summed, as bytes.
  };

  struct Entry {
    std::string name;
    torch::Tensor tensor;
    Kind kind = Kind::kGradient;
    bool rowSparse = false;     // The gradient is sparse, of float32, and so is its sum.
    bool travelsDense = false;  // It travels as a whole matrix all the same.
  };

  // The entry of a buffer: summed if it is floating point, otherwise slice 0's bytes.
  static Entry entryOf(const Parameter& buffer);

  struct Options {
    ReduceOp op = ReduceOp::kSum;  // Or kAverage, over all slices.
    // Every backward() is one slice, in the worker's order; nobody calls begin and end.
    bool oneSlicePerBackward = false;
    bool hooks = true;  // Otherwise take() gives the gradients.
    std::size_t bucketBytes = std::size_t{4} << 20;
    TrainMetrics* metrics = nullptr;  // What counts bytes and seconds; may be null.
  };

  // The entries' types and shapes must stay.
  Reducer(const Workers& workers, std::vector<Entry> entries, const Options& options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Gradients that arrive between the two belong to `slice`; slices come in ascending order. An
  // entry without a value in a slice counts as +0.0 there.
  void beginSlice(int slice);
  void endSlice();
  void take(int entry, const torch::Tensor& gradient) { put(entry, gradient, /*counts=*/true); }
  // For the other kinds. A kSum entry has a sum if one slice's value was `changed`.
  void add(int entry, const torch::Tensor& value, bool changed);

  // Slices of this step that are not in yet.
  int missingSlices() const { return range_.end - next_; }

  // Returns once every entry's sum over all slices of all workers is there. Parameters' .grad is
  // theirs until the next backward.
  void finish();
  // After finish(): the sum; undefined when no slice had a value that counts.
  const torch::Tensor& sum(int entry) const { return sums_[entry]; }

 private:
  struct SharedBucket;

  void build(std::span<const int> order);
  void learnOrder();
  void put(int entry, const torch::Tensor& value, bool counts);
  void putInBucket(int entry, const torch::Tensor& dense, bool counts);
  void takeRows(int entry, const torch::Tensor& value);
  void putRows(int entry, const collective::Rows& rows);
  void finishRows();
  void finishDenseRows();
  void complete(SharedBucket& bucket);
  void startReady();
  collective::SumPart partOf(SharedBucket& bucket) const;
  Status exchangeTail();
  // Runs `exchange`, and counts it and the bytes that it has moved, which `bytes` knows then.
  template <typename Exchange, typename Bytes>
  Status counted(const Exchange& exchange, const Bytes& bytes) const;

  const Workers workers_;
  const SliceRange range_;
  const std::vector<Entry>
      entries_;                // The caller's, then one of row presence for each dense matrix.
  std::vector<int> presence_;  // By entry: number of its row presence; -1: none.
  const Options options_;
  std::vector<Extent> extents_;
  std::vector<std::unique_ptr<SharedBucket>> buckets_;
  std::size_t tail_ = 0;                     // The last buckets, which travel together.
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
