// How the learning rate changes over the steps of a job.
//
// A schedule is a pure function from the number of a step to a factor on the optimizer's learning
// rate: nothing to save, and the same on every worker. Plateaus are the exception: the run that
// evaluates counts them, saves the count, and multiplies by their factors as well. Plain values,
// safe to copy between threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "colla/status.h"

namespace colla {

struct ConstantRate {
  friend bool operator==(const ConstantRate&, const ConstantRate&) = default;
};

// Times `factor` after every `every` steps, at once.
struct StepRate {
  std::int64_t every = 1;
  double factor = 1;

  friend bool operator==(const StepRate&, const StepRate&) = default;
};

// Times `factor` over every `every` steps, a little at each.
struct ExponentialRate {
  std::int64_t every = 1;
  double factor = 1;

  friend bool operator==(const ExponentialRate&, const ExponentialRate&) = default;
};

// Half a cosine from 1 to `floor` over `steps` steps, then `floor`.
struct CosineRate {
  std::int64_t steps = 1;
  double floor = 0;

  friend bool operator==(const CosineRate&, const CosineRate&) = default;
};

// Times `factor` whenever `patience` evaluations in a row were not better than the best one before
// them, by more than `minDelta`, in `metric`: "loss" or one of Model::metrics(), of the test part.
struct PlateauRate {
  std::string metric = "loss";
  std::int64_t patience = 1;
  double factor = 0.1;
  double minDelta = 0;

  friend bool operator==(const PlateauRate&, const PlateauRate&) = default;
};

struct Schedule {
  std::variant<ConstantRate, StepRate, ExponentialRate, CosineRate, PlateauRate> shape;
  // Steps in front of the shape, which counts from their end. They rise linearly: of four, the
  // first has 1/4 of the rate and the last all of it.
  std::int64_t warmup = 0;

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// From "constant", "step:EVERY:FACTOR", "exponential:EVERY:FACTOR", "cosine:STEPS[:FLOOR]" or
// "plateau:METRIC:PATIENCE:FACTOR[:MIN-DELTA]", with ",warmup:STEPS" behind it or not. The result
// is valid.
Result<Schedule> parseSchedule(std::string_view text);
// The text that parseSchedule() reads back as the same schedule.
std::string toString(const Schedule& schedule);

// kInvalidArgument, with the number that can't be used.
Status validate(const Schedule& schedule);

// What a valid schedule makes of the learning rate in `step`, which counts from 0, without
// plateaus. Exactly 1 wherever the rate is the optimizer's own.
double factorAt(const Schedule& schedule, std::int64_t step);

// Linear scaling: the rate for a global batch of as many slices, from the rate that suits the
// batch of one. By slices and not by workers, so that it is the same for any number of workers.
constexpr double scaleLearningRate(double lr, int slices) { return lr * slices; }

}  // namespace colla
