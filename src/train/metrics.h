// What one worker's training has done, for the metrics: steps, samples, and the time that the
// exchange of gradients took, hidden behind the backward pass or exposed.
//
// One object per training, owned by whatever runs its steps. Thread safety: the functions of the
// step are for the thread that trains, exchanged() for the one that exchanges, and the two may run
// at the same time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/deadline.h"
#include "base/metric_families.h"
#include "base/metrics.h"
#include "base/thread_annotations.h"

namespace colla::train {

class TrainMetrics {
 public:
  TrainMetrics() = default;

  // The backward pass of the step's last slice is over: what is exchanged from now on keeps the
  // step waiting.
  void backwardEnded(TimePoint now) COLLA_EXCLUDES(mutex_);
  // `bytes` of gradients were exchanged from `began` to `ended`. Called before stepEnded().
  void exchanged(std::size_t bytes, TimePoint began, TimePoint ended) COLLA_EXCLUDES(mutex_);
  // Gradients of so many samples were computed, in a loop whose steps do not know them.
  void countSamples(std::int64_t samples) { samples_.add(static_cast<std::uint64_t>(samples)); }
  // What this worker computed: the passes of one slice, the update of a step.
  void forwardTook(std::chrono::nanoseconds took) { forward_.add(took); }
  void backwardTook(std::chrono::nanoseconds took) { backward_.add(took); }
  void updateTook(std::chrono::nanoseconds took) { update_.add(took); }
  // A step of `samples` samples of this worker, which took `took`, is over.
  void stepEnded(std::int64_t samples, std::chrono::nanoseconds took) COLLA_EXCLUDES(mutex_);
  // Between two steps of this worker the job replaced its workers, which took `took`.
  void epochReplaced(std::chrono::nanoseconds took) { epochs_.observe(took); }

 private:
  metrics::Counter steps_{metrics::family("colla_steps_total")};
  metrics::Counter samples_{metrics::family("colla_samples_total")};
  metrics::Histogram seconds_{metrics::family("colla_step_seconds")};
  metrics::Histogram epochs_{metrics::family("colla_epoch_replace_seconds")};
  metrics::Counter forward_{metrics::family("colla_compute_seconds_total"), {"forward"}};
  metrics::Counter backward_{metrics::family("colla_compute_seconds_total"), {"backward"}};
  metrics::Counter update_{metrics::family("colla_compute_seconds_total"), {"update"}};

  struct Phase {
    explicit Phase(const char* name)
        : bytes(metrics::family("colla_exchange_bytes_total"), {name}),
          seconds(metrics::family("colla_exchange_seconds_total"), {name}) {}
    metrics::Counter bytes;
    metrics::Counter seconds;
  };
  Mutex mutex_;
  TimePoint backwardEnd_ COLLA_GUARDED_BY(mutex_) = TimePoint::max();  // max: it is not over.
  Phase hidden_ COLLA_GUARDED_BY(mutex_){"hidden"};
  Phase exposed_ COLLA_GUARDED_BY(mutex_){"exposed"};
};

}  // namespace colla::train
