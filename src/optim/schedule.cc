#include "colla/schedule.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/nearest.h"
#include "optim/power.h"

namespace colla {
namespace {

constexpr std::array<std::string_view, 5> kForms = {
    "constant", "step:EVERY:FACTOR", "exponential:EVERY:FACTOR", "cosine:STEPS[:FLOOR]",
    "plateau:METRIC:PATIENCE:FACTOR[:MIN-DELTA]"};
constexpr std::string_view kWarmup = ",warmup:STEPS";

// What is right instead of a text whose shape is called `name`.
Status expected(std::string_view name) {
  std::vector<std::string> names;
  for (const std::string_view form : kForms) {
    names.emplace_back(form.substr(0, form.find(':')));
    if (names.back() != name) continue;
    return {StatusCode::kInvalidArgument,
            fmt::format("{} is written {}, with or without {} behind it", name, form, kWarmup)};
  }
  return {StatusCode::kInvalidArgument,
          fmt::format("expected {}, with or without {} behind it{}", fmt::join(kForms, ", "),
                      kWarmup, didYouMean(name, names))};
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t end = text.find(separator); end != std::string_view::npos;
       end = text.find(separator)) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

template <typename Number>
Status readNumber(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end) return {};
  constexpr bool kWhole = std::is_integral_v<Number>;
  return {StatusCode::kInvalidArgument,
          fmt::format("\"{}\" is not a {}number in range", text, kWhole ? "whole " : "")};
}

template <typename Shape>
Result<Schedule> readShape(const std::vector<std::string_view>& parts) {
  Shape shape;
  if constexpr (std::is_same_v<Shape, CosineRate>) {
    COLLA_TRY(readNumber(parts[1], shape.steps));
    if (parts.size() > 2) COLLA_TRY(readNumber(parts[2], shape.floor));
  } else if constexpr (std::is_same_v<Shape, PlateauRate>) {
    shape.metric = parts[1];
    COLLA_TRY(readNumber(parts[2], shape.patience));
    COLLA_TRY(readNumber(parts[3], shape.factor));
    if (parts.size() > 4) COLLA_TRY(readNumber(parts[4], shape.minDelta));
  } else {
    COLLA_TRY(readNumber(parts[1], shape.every));
    COLLA_TRY(readNumber(parts[2], shape.factor));
  }
  return Schedule{.shape = shape};
}

Result<Schedule> parse(std::string_view text) {
  const auto halves = split(text, ',');
  const auto parts = split(halves[0], ':');
  const std::string_view name = parts[0];
  const std::size_t numbers = parts.size() - 1;

  Result<Schedule> schedule(expected(name));
  if (halves.size() > 2) return schedule;
  if (name == "constant" && numbers == 0) schedule = Schedule{};
  if (name == "step" && numbers == 2) schedule = readShape<StepRate>(parts);
  if (name == "exponential" && numbers == 2) schedule = readShape<ExponentialRate>(parts);
  if (name == "cosine" && (numbers == 1 || numbers == 2)) schedule = readShape<CosineRate>(parts);

  if (name == "plateau" && (numbers == 3 || numbers == 4)) schedule = readShape<PlateauRate>(parts);

  if (schedule.ok() && halves.size() == 2) {
    const auto warmup = split(halves[1], ':');
    if (warmup.size() != 2 || warmup[0] != "warmup") {
      return expected(name);
    }
    COLLA_TRY(readNumber(warmup[1], schedule->warmup));
  }
  if (schedule.ok()) COLLA_TRY(validate(*schedule));
  return schedule;
}

Status refuse(std::string_view what, auto value, std::string_view rule) {
  return {StatusCode::kInvalidArgument, fmt::format("{} is {}: it must be {}", what, value, rule)};
}

Status checkShape(const ConstantRate& /*shape*/) { return {}; }
Status checkShape(const CosineRate& shape) {
  if (shape.steps < 1) return refuse("the number of steps", shape.steps, "at least 1");
  if (shape.floor >= 0 && shape.floor <= 1) return {};
  return refuse("the floor", shape.floor, "at least 0 and at most 1");
}
Status checkShape(const PlateauRate& shape) {
  if (shape.metric.empty()) return refuse("the metric", "missing", "loss or one of the model's");
  if (shape.patience < 1) return refuse("the patience", shape.patience, "at least 1 evaluation");
  if (!std::isfinite(shape.minDelta) || shape.minDelta < 0)
    return refuse("the least difference", shape.minDelta, "a number, 0 or more");
  if (shape.factor > 0 && shape.factor < 1) return {};
  return refuse("the factor", shape.factor, "above 0 and below 1");
}
template <typename Shape>
Status checkShape(const Shape& shape) {
  if (shape.every < 1) return refuse("the number of steps", shape.every, "at least 1");
  if (shape.factor > 0 && std::isfinite(shape.factor)) return {};
  return refuse("the factor", shape.factor, "a number above 0");
}

std::string textOf(const ConstantRate& /*shape*/) { return "constant"; }
std::string textOf(const StepRate& shape) {
  return fmt::format("step:{}:{}", shape.every, shape.factor);
}
std::string textOf(const ExponentialRate& shape) {
  return fmt::format("exponential:{}:{}", shape.every, shape.factor);
}
std::string textOf(const CosineRate& shape) {
  return fmt::format("cosine:{}:{}", shape.steps, shape.floor);
}

std::string textOf(const PlateauRate& shape) {
  return fmt::format("plateau:{}:{}:{}:{}", shape.metric, shape.patience, shape.factor,
                     shape.minDelta);
}

double factorOf(const PlateauRate& /*shape*/, std::int64_t /*step*/) { return 1; }
double factorOf(const ConstantRate& /*shape*/, std::int64_t /*step*/) { return 1; }
double factorOf(const StepRate& shape, std::int64_t step) {
  return optim::power(shape.factor, step / shape.every);
}
double factorOf(const ExponentialRate& shape, std::int64_t step) {
  return std::pow(shape.factor, static_cast<double>(step) / static_cast<double>(shape.every));
}
double factorOf(const CosineRate& shape, std::int64_t step) {
  if (step == 0) return 1;
  if (step >= shape.steps) return shape.floor;
  const double done = static_cast<double>(step) / static_cast<double>(shape.steps);
  return shape.floor + (1 - shape.floor) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

}  // namespace

Result<Schedule> parseSchedule(std::string_view text) {
  auto schedule = parse(text);
  if (schedule.ok()) return schedule;
  return schedule.status().withContext(fmt::format("learning-rate schedule \"{}\"", text));
}

std::string toString(const Schedule& schedule) {
  std::string text = std::visit([](const auto& shape) { return textOf(shape); }, schedule.shape);
  if (schedule.warmup > 0) text += fmt::format(",warmup:{}", schedule.warmup);
  return text;
}

Status validate(const Schedule& schedule) {
  if (schedule.warmup < 0) return refuse("the warm-up", schedule.warmup, "at least 0 steps");
  return std::visit([](const auto& shape) { return checkShape(shape); }, schedule.shape);
}

double factorAt(const Schedule& schedule, std::int64_t step) {
  if (step < schedule.warmup) {
    return static_cast<double>(step + 1) / static_cast<double>(schedule.warmup);
  }
  return std::visit([&](const auto& shape) { return factorOf(shape, step - schedule.warmup); },
                    schedule.shape);
}

}  // namespace colla
