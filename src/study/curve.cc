#include "study/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>

namespace colla::study {
namespace {

using Json = nlohmann::json;

// A number, or what stands for one that JSON lacks.
double numberOf(const Json& object, const char* name, double otherwise) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

struct Times {
  double start = 0;
  double end = 0;
};

Result<std::map<std::int64_t, Times>> readLog(const std::string& path) {
  std::ifstream file(path);
  std::map<std::int64_t, Times> times;
  std::string line;
  if (!std::getline(file, line)) {
    return {StatusCode::kInvalidArgument, fmt::format("{} is missing or empty", path)};
  }
  while (std::getline(file, line)) {
    long long step = 0;
    Times of;
    if (std::sscanf(line.c_str(), "%lld\t%lf\t%lf", &step, &of.start, &of.end) == 3) {
      times[step] = of;
    }
  }
  return times;
}

// The time from the end of the previous point to that of this one counts, unless the training
// paused in between to evaluate: then the step itself does.
double timeOf(const std::vector<CurvePoint>& points, std::size_t i) {
  const CurvePoint& point = points[i];
  const bool paused = i == 0 || points[i - 1].evaluated;
  return point.end - (paused ? point.start : points[i - 1].end);
}

std::int64_t stepsOf(const std::vector<CurvePoint>& points, std::size_t i) {
  return i == 0 ? points[0].step : points[i].step - points[i - 1].step;
}

// After pauses of worker 0 alone, what the others did meanwhile belongs to no measured time.
bool measures(const Curve& curve, std::size_t i) {
  if (i == 0 || curve.points[i].step <= curve.warmUp) return false;
  return curve.inStep || !curve.points[i - 1].evaluated;
}

}  // namespace

bool Curve::hasTest() const { return std::ranges::count_if(points, &CurvePoint::evaluated) >= 2; }

std::int64_t warmUpOf(std::int64_t steps) {
  return std::min(std::max<std::int64_t>(steps / 10, 5), steps / 2);
}

Result<Curve> readCurve(const std::string& json, const std::string& log, bool inStep) {
  COLLA_TRY_ASSIGN(const auto times, readLog(log));
  std::ifstream file(json);
  Curve curve;
  curve.inStep = inStep;
  for (std::string line; std::getline(file, line);) {
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (object.is_discarded() || !object.is_object()) {
      return {StatusCode::kInvalidArgument, fmt::format("{} has a line that is not JSON", json)};
    }
    const Json metrics = object.value("metrics", Json::object());
    if (object.value("total", false)) {
      curve.steps = object.value("steps", std::int64_t{0});
      curve.seconds = numberOf(object, "seconds", 0);
      const auto samples = object.value("samples", std::int64_t{0});
      if (curve.steps > 0)
        curve.samplesPerStep = static_cast<double>(samples) / static_cast<double>(curve.steps);
      continue;
    }
    CurvePoint point;
    point.step = object.value("step", std::int64_t{0});
    point.loss = numberOf(object, "loss", std::numeric_limits<double>::quiet_NaN());
    const auto found = times.find(point.step);
    if (found == times.end()) continue;
    point.start = found->second.start;
    point.end = found->second.end;
    point.evaluated = metrics.contains("val_loss");
    point.testLoss = numberOf(metrics, "val_loss", 0);
    point.testAccuracy = numberOf(metrics, "val_accuracy", -1);
    curve.points.push_back(point);
  }
  // Where workers are not in step, worker 0 may have made few steps itself, or one.
  if (curve.steps == 0 || curve.points.size() < (inStep ? 2u : 1u)) {
    return {
        StatusCode::kInvalidArgument,
        fmt::format("{} does not have two steps and totals: the training did not come to its end",
                    json)};
  }
  curve.warmUp = warmUpOf(curve.steps);
  return curve;
}

double secondsPerStep(const Curve& curve) {
  double seconds = 0;
  std::int64_t steps = 0;
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    if (!measures(curve, i)) continue;
    seconds += timeOf(curve.points, i);
    steps += stepsOf(curve.points, i);
  }
  if (steps > 0) return seconds / static_cast<double>(steps);
  // Nothing of it could be measured apart: the whole is all that is known.
  return curve.steps > 0 ? curve.seconds / static_cast<double>(curve.steps) : 0;
}

double medianSecondsPerStep(const Curve& curve) {
  std::vector<double> each;
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    if (!measures(curve, i) || stepsOf(curve.points, i) <= 0) continue;
    each.push_back(timeOf(curve.points, i) / static_cast<double>(stepsOf(curve.points, i)));
  }
  if (each.empty()) return secondsPerStep(curve);
  const auto middle = each.begin() + static_cast<std::ptrdiff_t>(each.size() / 2);
  std::ranges::nth_element(each, middle);
  return *middle;
}

std::vector<double> trainingSeconds(const Curve& curve) {
  std::vector<double> result;
  double sum = 0;
  const double step = secondsPerStep(curve);
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    sum += timeOf(curve.points, i);
    result.push_back(curve.inStep ? sum : step * static_cast<double>(curve.points[i].step));
  }
  return result;
}

std::vector<LossPoint> losses(const Curve& curve) {
  std::vector<LossPoint> result;
  const std::vector<double> seconds = trainingSeconds(curve);
  const bool test = curve.hasTest();
  const std::size_t window = std::max<std::size_t>(5, curve.points.size() / 10);
  double sum = 0;
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const CurvePoint& point = curve.points[i];
    sum += point.loss;
    if (i >= window) sum -= curve.points[i - window].loss;
    if (test && point.evaluated) result.push_back({point.step, seconds[i], point.testLoss});
    if (!test && i + 1 >= window) {
      result.push_back({point.step, seconds[i], sum / static_cast<double>(window)});
    }
  }
  return result;
}

std::optional<double> lowest(const std::vector<LossPoint>& losses) {
  const auto least = std::ranges::min_element(losses, {}, &LossPoint::loss);
  return least == losses.end() ? std::nullopt : std::optional(least->loss);
}

std::optional<double> secondsTo(double target, const std::vector<LossPoint>& losses) {
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (!(losses[i].loss <= target)) continue;
    if (i == 0 || losses[i - 1].loss == losses[i].loss) return losses[i].seconds;
    const double share = (losses[i - 1].loss - target) / (losses[i - 1].loss - losses[i].loss);
    return losses[i - 1].seconds + share * (losses[i].seconds - losses[i - 1].seconds);
  }
  return std::nullopt;
}

}  // namespace colla::study
