// Where a training's news go: one interface for all writers, so that a run has a list of them.
//
// The run tells every sink the same, in this order: begin() of a section (an epoch, say), then for
// each of its steps step(), evaluation() if the test set was looked at, and endStep(); end() of the
// section; finish() at the end of the run. A sink overrides what it cares about.
//
// To be used by one thread. An error names the file that could not be written.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "colla/status.h"
#include "observe/progress_line.h"
#include "observe/step.h"

namespace colla::observe {

// The section that a step belongs to, up to that step.
struct SectionSoFar {
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  Metrics metrics;  // Means; the loss first.
};

class Sink {
 public:
  virtual ~Sink() = default;

  virtual Status begin(const Section& /*section*/) { return {}; }
  virtual Status step(const Step& /*step*/, const SectionSoFar& /*soFar*/) { return {}; }
  // Of the test set after step `number`; the loss first.
  virtual Status evaluation(std::int64_t /*number*/, Metrics /*metrics*/) { return {}; }
  // The same step again, with the metrics of its evaluation among its own.
  virtual Status endStep(const Step& /*step*/) { return {}; }
  // Means of the section, the loss first, and behind them the metrics of its last evaluation.
  virtual Status end(Metrics /*metrics*/) { return {}; }
  // Before a checkpoint: what was recorded must not be behind it.
  virtual Status flush() { return {}; }
  virtual Status finish(const Totals& /*totals*/) { return {}; }
};

// Keras-like lines on `file` (observe/progress.h), which must outlive the sink.
std::unique_ptr<Sink> progressSink(std::FILE* file);
// One JSON object per step in `path` (observe/step_log.h).
Result<std::unique_ptr<Sink>> jsonSink(const std::string& path);
// TensorBoard's events in `directory` (observe/event_writer.h), after `resumedStep`.
Result<std::unique_ptr<Sink>> eventSink(const std::string& directory, std::int64_t resumedStep);
// A row per step in `path` (observe/run_log.h), after `resumedStep`.
Result<std::unique_ptr<Sink>> runLogSink(const std::string& path, std::int64_t resumedStep);

}  // namespace colla::observe
