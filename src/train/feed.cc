#include "train/feed.h"

#include <algorithm>

#include "colla/error.h"

namespace colla::train {

Feed::Feed(std::shared_ptr<const Dataset> dataset, const data::Order& order, SliceRange slices,
           Advance how, std::int64_t first, std::int64_t end)
    : order_(order), slices_(slices), how_(how), batch_(first) {
  data::LoaderOptions options;
  options.slices = slices;
  options.firstStep = first;
  options.endStep = std::max(first, end);
  loader_ = valueOrThrow(data::Loader::create(std::move(dataset), order, options));
}

std::int64_t Feed::ownSamples() const {
  std::int64_t samples = 0;
  for (int slice = slices_.begin; slice < slices_.end; ++slice) {
    samples += order_.slice(position().batch, slice).count;
  }
  return samples;
}

Batch Feed::next() {
  if (how_ != Advance::kNoLoss) return valueOrThrow(loader_->next());
  if (used_ == kept_.size()) kept_.push_back(valueOrThrow(loader_->next()));
  return kept_[used_++];
}

void Feed::advance(std::int64_t step, bool dropped) {
  if (how_ == Advance::kSteps) {
    // What others did meanwhile is theirs.
    for (++batch_; batch_ < step; ++batch_) {
      for (int slice = slices_.begin; slice < slices_.end; ++slice) valueOrThrow(loader_->next());
    }
    return;
  }
  used_ = 0;
  if (how_ == Advance::kNoLoss && dropped) return;
  kept_.clear();
  ++batch_;
  waits_ = how_ == Advance::kNoLoss && position().batch == 0;
}

}  // namespace colla::train
