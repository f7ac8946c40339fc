#include "train/recorder.h"

#include <fmt/format.h>

#include "base/log.h"
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
  if (!options.quiet) sinks_.push_back(observe::progressSink(stdout));
  if (!options.json.empty()) sinks_.push_back(valueOrThrow(observe::jsonSink(options.json)));
  if (options.directory.empty()) return;
  const std::int64_t resumed = plan.resumeStep.value_or(0);
  sinks_.push_back(valueOrThrow(observe::eventSink(options.directory, resumed)));
  sinks_.push_back(valueOrThrow(observe::runLogSink(options.directory + "/log.txt", resumed)));
}

void Recorder::begin(const observe::Section& section) {
  samples_ = 0;
  tell(&observe::Sink::begin, section);
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
  metrics_.clear();
  append(metrics_, names_, mean.loss, mean.metrics);
  tell(&observe::Sink::step, step_,
       observe::SectionSoFar{.steps = done, .samples = samples_, .metrics = metrics_});
}

void Recorder::end(const Outcome& mean, const Outcome* test) {
  metrics_.clear();
  append(metrics_, names_, mean.loss, mean.metrics);
  if (test != nullptr) append(metrics_, testNames_, test->loss, test->metrics);
  tell(&observe::Sink::end, metrics_);
}

void Recorder::endStep() {
  step_.metrics = observe::Metrics(stepMetrics_).subspan(1);
  tell(&observe::Sink::endStep, step_);
}

void Recorder::evaluation(std::int64_t number, const Outcome& test, bool alone) {
  const std::size_t before = stepMetrics_.size();
  append(stepMetrics_, testNames_, test.loss, test.metrics);
  if (alone) {
    std::string text;
    for (const auto& [name, value] : observe::Metrics(stepMetrics_).subspan(before)) {
      text += fmt::format(" - {}: {:.4f}", name, value);
    }
    log::info("step {}{}", number, text);
  }
  metrics_.clear();
  append(metrics_, names_, test.loss, test.metrics);
  tell(&observe::Sink::evaluation, number, metrics_);
}

void Recorder::flush() { tell(&observe::Sink::flush); }

void Recorder::finish(const Summary& summary) {
  metrics_.clear();
  append(metrics_, names_, summary.train.loss, summary.train.metrics);
  if (summary.test) append(metrics_, testNames_, summary.test->loss, summary.test->metrics);
  tell(&observe::Sink::finish, observe::Totals{.steps = summary.steps,
                                               .samples = summary.samples,
                                               .seconds = summary.seconds,
                                               .loss = summary.train.loss,
                                               .metrics = observe::Metrics(metrics_).subspan(1),
                                               .peakMemory = observe::peakMemory()});
}

}  // namespace colla::train
