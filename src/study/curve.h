// What a training wrote down of itself, step by step, and the figures that follow from it: pure
// functions of the numbers.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "colla/status.h"

namespace colla::study {

// A step that was written down. Under ps-async worker 0 writes its own, so numbers may jump.
struct CurvePoint {
  std::int64_t step = 0;
  double start = 0;  // Seconds since the training began, pauses for evaluations included.
  double end = 0;
  double loss = 0;
  bool evaluated = false;  // The test set was evaluated after it:
  double testLoss = 0;
  double testAccuracy = -1;  // -1: the model has none.
};

struct Curve {
  std::vector<CurvePoint> points;
  double samplesPerStep = 0;
  std::int64_t steps = 0;  // All of them, also those that other workers made.
  double seconds = 0;      // Of all steps.
  // Steps that measure nothing yet: the first ones are slow.
  std::int64_t warmUp = 0;
  // A pause of one worker stops all of them. Otherwise the others went on meanwhile.
  bool inStep = true;

  bool empty() const { return points.empty(); }
  bool hasTest() const;
};

// Of `steps` steps, so many are left out as warm-up: a tenth, at least 5, at most half.
std::int64_t warmUpOf(std::int64_t steps);

// Reads what `--json` and the log of a run's directory have. kInvalidArgument names a file that is
// not whole.
Result<Curve> readCurve(const std::string& json, const std::string& log, bool inStep);

// Of one step, pauses for evaluations left out: over all steps after warm-up, and the median of
// them.
double secondsPerStep(const Curve& curve);
double medianSecondsPerStep(const Curve& curve);
// Training time until each point, evaluations left out. For a training whose workers are not in
// step, the mean time of a step times its number.
std::vector<double> trainingSeconds(const Curve& curve);

// The loss that counts: on the test set where it was evaluated, else the mean over the last steps.
struct LossPoint {
  std::int64_t step = 0;
  double seconds = 0;  // Of training.
  double loss = 0;
};
std::vector<LossPoint> losses(const Curve& curve);
// The lowest of them: what a run has reached.
std::optional<double> lowest(const std::vector<LossPoint>& losses);
// When `losses` first came down to `target`, between two points on the straight line between them.
// Nothing if it never did.
std::optional<double> secondsTo(double target, const std::vector<LossPoint>& losses);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CurvePoint, step, start, end, loss, evaluated, testLoss,
                                   testAccuracy)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Curve, points, samplesPerStep, steps, seconds, warmUp, inStep)

}  // namespace colla::study
