// What worker 0 tells the world about a run: progress on standard output, log.txt, TensorBoard
// events and JSON lines. The other workers have none.
//
// To be used by one thread. Errors are thrown as colla::Error.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "colla/trainer.h"
#include "observe/event_writer.h"
#include "observe/progress.h"
#include "observe/run_log.h"
#include "observe/step_log.h"
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
  // Loss first, then the model's metrics.
  const std::vector<std::string> names_;
  const std::vector<std::string> testNames_;
  std::optional<observe::Progress> progress_;
  std::optional<observe::RunLog> log_;
  std::optional<observe::StepLog> json_;
  std::optional<observe::EventWriter> events_;
  std::int64_t samples_ = 0;  // Of the section so far.
  std::vector<observe::Metric> metrics_;
  observe::Step step_;  // The last one, and its metrics:
  std::vector<observe::Metric> stepMetrics_;
};

}  // namespace colla::train
