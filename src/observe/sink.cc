#include "observe/sink.h"

#include <utility>
#include <vector>

#include "observe/event_writer.h"
#include "observe/progress.h"
#include "observe/run_log.h"
#include "observe/step_log.h"

namespace colla::observe {
namespace {

class ProgressSink final : public Sink {
 public:
  explicit ProgressSink(std::FILE* file) : progress_(file) {}

  Status begin(const Section& section) override {
    progress_.begin(section);
    return {};
  }
  Status step(const Step& /*step*/, const SectionSoFar& soFar) override {
    progress_.step(soFar.steps, soFar.samples, soFar.metrics);
    return {};
  }
  Status end(Metrics metrics) override {
    progress_.end(metrics);
    return {};
  }

 private:
  Progress progress_;
};

class JsonSink final : public Sink {
 public:
  explicit JsonSink(StepLog log) : log_(std::move(log)) {}

  Status endStep(const Step& step) override { return log_.step(step); }
  Status finish(const Totals& totals) override { return log_.finish(totals); }

 private:
  StepLog log_;
};

class EventSink final : public Sink {
 public:
  explicit EventSink(EventWriter writer) : writer_(std::move(writer)) {}

  Status step(const Step& step, const SectionSoFar& /*soFar*/) override {
    all_ = {{"loss", step.loss}};
    all_.insert(all_.end(), step.metrics.begin(), step.metrics.end());
    return writer_.scalars("train/", step.number, all_);
  }
  Status evaluation(std::int64_t number, Metrics metrics) override {
    return writer_.scalars("test/", number, metrics);
  }
  Status flush() override { return writer_.flush(); }
  Status finish(const Totals& /*totals*/) override { return writer_.close(); }

 private:
  EventWriter writer_;
  std::vector<Metric> all_;  // Of a step, the loss included; kept for its memory.
};

class RunLogSink final : public Sink {
 public:
  explicit RunLogSink(RunLog log) : log_(std::move(log)) {}

  Status step(const Step& step, const SectionSoFar& /*soFar*/) override { return log_.step(step); }
  Status flush() override { return log_.flush(); }
  Status finish(const Totals& /*totals*/) override { return log_.close(); }

 private:
  RunLog log_;
};

}  // namespace

std::unique_ptr<Sink> progressSink(std::FILE* file) { return std::make_unique<ProgressSink>(file); }

Result<std::unique_ptr<Sink>> jsonSink(const std::string& path) {
  COLLA_TRY_ASSIGN(StepLog log, StepLog::create(path));
  return std::unique_ptr<Sink>(std::make_unique<JsonSink>(std::move(log)));
}

Result<std::unique_ptr<Sink>> eventSink(const std::string& directory, std::int64_t resumedStep) {
  EventWriter::Options options;
  options.resumedStep = resumedStep;
  COLLA_TRY_ASSIGN(EventWriter writer, EventWriter::create(directory, options));
  return std::unique_ptr<Sink>(std::make_unique<EventSink>(std::move(writer)));
}

Result<std::unique_ptr<Sink>> runLogSink(const std::string& path, std::int64_t resumedStep) {
  RunLog::Options options;
  options.resumedStep = resumedStep;
  COLLA_TRY_ASSIGN(RunLog log, RunLog::open(path, options));
  return std::unique_ptr<Sink>(std::make_unique<RunLogSink>(std::move(log)));
}

}  // namespace colla::observe
