// A worker's way through the data: which batch comes next, when that is not simply the number of
// the step.
//
// Not thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "colla/dataset.h"
#include "data/loader.h"
#include "data/order.h"

namespace colla::train {

class Feed {
 public:
  enum class Advance {
    kSteps,   // Batch t belongs to step t: a worker that was left behind skips batches.
    kOwn,     // Each worker takes its batches one after another, at its own pace.
    kNoLoss,  // The same, and a batch whose gradients were dropped comes again; no batch of an
              // epoch comes before all workers are through with the epoch before.
  };

  // From batch `first` on, to `end`.
  Feed(std::shared_ptr<const Dataset> dataset, const data::Order& order, SliceRange slices,
       Advance how, std::int64_t first, std::int64_t end);

  // The number of the batch that is next, in all epochs.
  std::int64_t batch() const { return batch_; }
  data::Position position() const { return order_.position(batch_); }
  // Samples of that batch, over all workers.
  std::int64_t samples() const { return order_.batch(position().batch).count; }
  // The same, of this worker's slices alone.
  std::int64_t ownSamples() const;
  // The slices of it that are this worker's, one after another. Throws colla::Error.
  Batch next();
  // kNoLoss: there is nothing left in this epoch; others may have something.
  bool waits() const { return waits_; }
  // All are through with the epoch.
  void goOn() { waits_ = false; }

  // After the step: `step` updates are made.
  void advance(std::int64_t step, bool dropped);

 private:
  const data::Order order_;
  const SliceRange slices_;
  const Advance how_;
  std::unique_ptr<data::Loader> loader_;
  std::int64_t batch_;
  std::vector<Batch> kept_;  // kNoLoss: those of the present batch,
  std::size_t used_ = 0;     // and how many of them have been given out.
  bool waits_ = false;
};

}  // namespace colla::train
