// Reads a worker's batches, in order, ahead of time where that pays.
//
// For a worker that runs slices [a, b), next() gives slice a of the first step, …, slice b - 1 of
// the first step, slice a of the second, and so on, across epochs. Starting at any step costs the
// same: nothing before it is read.
//
// With prefetch threads, at most `ahead` slice-batches are being read or lie ready at any moment.
// Without, next() reads in the caller's thread. Where all cores are busy, a hand-over between
// threads can cost more than gathering a hundred rows from memory, so data sets in memory are read
// in the caller's thread unless asked otherwise, and threads are woken for several batches at once.
//
// Thread safety: next() is for one thread at a time.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/metric_families.h"
#include "base/metrics.h"
#include "base/thread_annotations.h"
#include "colla/dataset.h"
#include "colla/slices.h"
#include "data/batch_check.h"
#include "data/order.h"

namespace colla::data {

struct LoaderOptions {
  // The slices to read; the streams of random numbers are those of (the order's seed, step, slice).
  SliceRange slices{0, 1};
  // Steps [firstStep, endStep).
  std::int64_t firstStep = 0;
  std::int64_t endStep = std::numeric_limits<std::int64_t>::max();
  // Prefetch threads; kAutoThreads: none for a data set in memory, else two.
  static constexpr int kAutoThreads = -1;
  int threads = kAutoThreads;
  // Limit of slice-batches read ahead, at least 1.
  int ahead = 4;
  // What errors call a step, which they count from 1 as people do.
  const char* step = "step";
};

class Loader {
 public:
  // kInvalidArgument when options and order do not fit together, or the order has another number of
  // samples than the data set.
  static Result<std::unique_ptr<Loader>> create(std::shared_ptr<const Dataset> dataset,
                                                const Order& order, const LoaderOptions& options);
  // Ends the threads; waits for no more than the read() that each is in.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The batch of the next (step, slice), which is as the data set's fields() say. After an error,
  // the same error again; what the data set throws is one, too. Behind the last step it is
  // kInvalidArgument.
  Result<Batch> next();

  int threads() const { return static_cast<int>(threads_.size()); }

 private:
  using Indices = std::vector<std::int64_t>;

  Loader(std::shared_ptr<const Dataset> dataset, const Order& order, const LoaderOptions& options);
  // Slice-batches are numbered from 0 in the order of next(). `scratch` saves an allocation.
  Result<Batch> read(std::int64_t number, Indices& scratch);
  std::shared_ptr<const EpochOrder> epochOrder(std::int64_t epoch) COLLA_EXCLUDES(epochMutex_);
  Result<Batch> take() COLLA_EXCLUDES(mutex_);
  void awaitSlot(const std::optional<Result<Batch>>& slot) COLLA_REQUIRES(mutex_);
  void wakeReaders() COLLA_REQUIRES(mutex_);
  void prefetch() COLLA_EXCLUDES(mutex_);
  void stop() COLLA_EXCLUDES(mutex_);

  const std::shared_ptr<const Dataset> dataset_;
  const BatchCheck check_;
  const Order order_;
  const LoaderOptions options_;
  const std::int64_t end_;  // The number of slice-batches.

  // Of the caller's thread.
  metrics::Counter batches_{metrics::family("colla_loader_batches_total")};
  metrics::Counter waited_{metrics::family("colla_loader_wait_seconds_total")};
  Indices scratch_;
  Status failed_;

  // Threads may be on both sides of an epoch's end: the orders in use, the newest last.
  Mutex epochMutex_;
  std::vector<std::shared_ptr<const EpochOrder>> epochOrders_ COLLA_GUARDED_BY(epochMutex_);

  Mutex mutex_;
  Condition ready_;  // A batch was put into its slot.
  Condition space_;  // There is room to read ahead, or it is time to end.
  // Batches [0, taken_) were given out, [taken_, claimed_) are being read or lie in their slots.
  std::int64_t taken_ COLLA_GUARDED_BY(mutex_) = 0;
  std::int64_t claimed_ COLLA_GUARDED_BY(mutex_) = 0;
  int idle_ COLLA_GUARDED_BY(mutex_) = 0;          // Threads that wait for space.
  bool waiting_ COLLA_GUARDED_BY(mutex_) = false;  // The caller waits for its batch.
  bool stopping_ COLLA_GUARDED_BY(mutex_) = false;
  // Batch n lies in slot n mod `ahead`.
  std::vector<std::optional<Result<Batch>>> slots_ COLLA_GUARDED_BY(mutex_);

  std::vector<std::thread> threads_;
};

}  // namespace colla::data
