#include "train/recorder.h"

#include <fmt/format.h>

#include "base/log.h"
#include "colla/error.h"
#include "observe/memory.h"

namespace colla::train {
namespace {

std::vector<std::string> withLoss(std::string_view prefix, const std::vector<std::string>& names) {
  std::vector<std::string> all = {fmt::format("{}loss", prefix)};
  for (const std::string& name : names) all.push_back(fmt::format("{}{}", prefix, name));
  return all;
}

// Appends loss and metrics under `names`, whose first is the loss's.
void append(std::vector<observe::Metric>& metrics, const std::vector<std::string>& names,
            double loss, const std::vector<double>& values) {
  metrics.push_back({names[0], loss});
  for (std::size_t i = 0; i < values.size(); ++i) metrics.push_back({names[i + 1], values[i]});
}

}  // namespace

Recorder::Recorder(const RunPlan& plan, const std::vector<std::string>& metricNames)
    : names_(withLoss("", metricNames)), testNames_(withLoss("val_", metricNames)) {
  const TrainOptions& options = plan.options;
  if (!options.quiet) progress_.emplace(stdout);
  if (!options.json.empty()) json_.emplace(valueOrThrow(observe::StepLog::create(options.json)));
  if (options.directory.empty()) return;
  const std::int64_t resumed = plan.resumeStep.value_or(0);
  observe::EventWriter::Options events;
  events.resumedStep = resumed;
  events_.emplace(valueOrThrow(observe::EventWriter::create(options.directory, events)));
  observe::RunLog::Options log;
  log.resumedStep = resumed;
  log_.emplace(valueOrThrow(observe::RunLog::open(options.directory + "/log.txt", log)));
}

void Recorder::begin(const observe::Section& section) {
  samples_ = 0;
  if (progress_) progress_->begin(section);
}

void Recorder::step(std::int64_t number, std::int64_t done, double start, double end,
                    const Outcome& outcome, const Outcome& mean) {
  samples_ += static_cast<std::int64_t>(outcome.trained);
  stepMetrics_.clear();
  append(stepMetrics_, names_, outcome.loss, outcome.metrics);
  step_ = {.number = number,
           .start = start,
           .end = end,
           .samples = static_cast<std::int64_t>(outcome.trained),
           .loss = outcome.loss,
           .metrics = observe::Metrics(stepMetrics_).subspan(1)};
  if (log_) throwIfError(log_->step(step_));
  if (events_) throwIfError(events_->scalars("train/", number, stepMetrics_));
  if (progress_) {
    metrics_.clear();
    append(metrics_, names_, mean.loss, mean.metrics);
    progress_->step(done, samples_, metrics_);
  }
}

void Recorder::end(const Outcome& mean, const Outcome* test) {
  if (!progress_) return;
  metrics_.clear();
  append(metrics_, names_, mean.loss, mean.metrics);
  if (test != nullptr) append(metrics_, testNames_, test->loss, test->metrics);
  progress_->end(metrics_);
}

void Recorder::endStep() {
  if (!json_) return;
  step_.metrics = observe::Metrics(stepMetrics_).subspan(1);
  throwIfError(json_->step(step_));
}

void Recorder::evaluation(std::int64_t number, const Outcome& test, bool alone) {
  const std::size_t before = stepMetrics_.size();
  append(stepMetrics_, testNames_, test.loss, test.metrics);
  if (alone) {
    std::string text;
    for (const auto& [name, value] : std::span(stepMetrics_).subspan(before)) {
      text += fmt::format(" - {}: {:.4f}", name, value);
    }
    log::info("step {}{}", number, text);
  }
  if (!events_) return;
  metrics_.clear();
  append(metrics_, names_, test.loss, test.metrics);
  throwIfError(events_->scalars("test/", number, metrics_));
}

void Recorder::flush() {
  if (log_) throwIfError(log_->flush());
  if (events_) throwIfError(events_->flush());
}

void Recorder::finish(const Summary& summary) {
  if (log_) throwIfError(log_->close());
  if (events_) throwIfError(events_->close());
  if (!json_) return;
  metrics_.clear();
  append(metrics_, names_, summary.train.loss, summary.train.metrics);
  if (summary.test) append(metrics_, testNames_, summary.test->loss, summary.test->metrics);
  throwIfError(json_->finish({.steps = summary.steps,
                              .samples = summary.samples,
                              .seconds = summary.seconds,
                              .loss = summary.train.loss,
                              .metrics = observe::Metrics(metrics_).subspan(1),
                              .peakMemory = observe::peakMemory()}));
}

}  // namespace colla::train
