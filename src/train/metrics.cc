#include "train/metrics.h"

#include <algorithm>

namespace colla::train {

void TrainMetrics::backwardEnded(TimePoint now) {
  const MutexLock lock(mutex_);
  backwardEnd_ = now;
}

// An exchange that was under way when the backward pass ended is cut there. Its bytes are divided
// as its time is.
void TrainMetrics::exchanged(std::size_t bytes, TimePoint began, TimePoint ended) {
  const MutexLock lock(mutex_);
  const TimePoint cut = std::clamp(backwardEnd_, began, std::max(began, ended));
  const auto whole = ended - began;
  double share = began < backwardEnd_ ? 1 : 0;
  if (cut < ended) share = std::chrono::duration<double>(cut - began) / whole;
  const auto before = static_cast<std::size_t>(share * static_cast<double>(bytes));
  hidden_.bytes.add(before);
  hidden_.seconds.add(cut - began);
  exposed_.bytes.add(bytes - before);
  exposed_.seconds.add(ended - cut);
}

void TrainMetrics::stepEnded(std::int64_t samples, std::chrono::nanoseconds took) {
  steps_.add();
  samples_.add(static_cast<std::uint64_t>(samples));
  seconds_.observe(took);
  const MutexLock lock(mutex_);
  backwardEnd_ = TimePoint::max();
}

}  // namespace colla::train
