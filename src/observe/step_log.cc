#include "observe/step_log.h"

#include <nlohmann/json.hpp>

namespace colla::observe {
namespace {

using Json = nlohmann::ordered_json;

// Null where nothing was measured.
Json rate(std::int64_t samples, double seconds) {
  return seconds > 0 ? Json(static_cast<double>(samples) / seconds) : Json();
}

Json object(Metrics metrics) {
  Json result = Json::object();
  for (const Metric& metric : metrics) result[std::string(metric.name)] = metric.value;
  return result;
}

// Names that are no UTF-8 are made so, and not thrown at us.
std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Result<StepLog> StepLog::create(const std::string& path, const Options& options) {
  COLLA_TRY_ASSIGN(AppendFile file, AppendFile::open(path, AppendFile::Mode::kReplace,
                                                     options.flushEvery, *options.clock));
  return StepLog(std::move(file));
}

Status StepLog::step(const Step& step) {
  return file_.append(line({{"step", step.number},
                            {"loss", step.loss},
                            {"metrics", object(step.metrics)},
                            {"seconds", step.seconds()},
                            {"samples_per_s", rate(step.samples, step.seconds())}}));
}

Status StepLog::finish(const Totals& totals) {
  COLLA_TRY(file_.append(line({{"total", true},
                               {"steps", totals.steps},
                               {"samples", totals.samples},
                               {"seconds", totals.seconds},
                               {"samples_per_s", rate(totals.samples, totals.seconds)},
                               {"loss", totals.loss},
                               {"metrics", object(totals.metrics)},
                               {"peak_memory", totals.peakMemory}})));
  return file_.close();
}

}  // namespace colla::observe
