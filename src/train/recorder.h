// What worker 0 tells the world about a run: every step goes to each of a list of sinks (progress
// on standard output, log.txt, TensorBoard events, JSON lines). The other workers have none.
//
// To be used by one thread. Errors are thrown as colla::Error.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "colla/error.h"
#include "colla/trainer.h"
#include "observe/sink.h"
#include "train/replica.h"
#include "train/run_plan.h"

namespace colla::train {

class Recorder {
 public:
  Recorder(const RunPlan& plan, const std::vector<std::string>& metricNames);

  void begin(const observe::Section& section);
  // Step `number` (from 1), which is the section's step `done`; `mean` is over the section so far.
  void step(std::int64_t number, std::int64_t done, double start, double end,
            const Outcome& outcome, const Outcome& mean);
  // After what else was found out about that step: its evaluation.
  void endStep();
  void end(const Outcome& mean, const Outcome* test);
  // Of the test set, after step `number`. `alone`: end() will not tell it.
  void evaluation(std::int64_t number, const Outcome& test, bool alone);
  // Before a checkpoint: what was recorded must not be behind it.
  void flush();
  void finish(const Summary& summary);

 private:
  // Calls `event` of every sink.
  template <typename... Parameters, typename... Arguments>
  void tell(Status (observe::Sink::*event)(Parameters...), const Arguments&... arguments) {
    for (const auto& sink : sinks_) throwIfError((sink.get()->*event)(arguments...));
  }

  // Loss first, then the model's metrics.
  const std::vector<std::string> names_;
  const std::vector<std::string> testNames_;
  std::vector<std::unique_ptr<observe::Sink>> sinks_;
  std::int64_t samples_ = 0;  // Of the section so far.
  std::vector<observe::Metric> metrics_;
  observe::Step step_;  // The last one, and its metrics:
  std::vector<observe::Metric> stepMetrics_;
};

}  // namespace colla::train
