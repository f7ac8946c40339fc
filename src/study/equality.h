// Which variants have the same bits: checkpoints of the first runs, every pair of them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "study/variant.h"

namespace colla::study {

struct EqualityMatrix {
  std::int64_t step =
      0;  // Of one worker; a variant whose updates are smaller has made more of them.
  std::vector<std::string> variants;  // Ids.
  // 0: equal in every bit; above: the largest absolute difference of two weights;
  // below: they can't be compared.
  std::vector<std::vector<double>> differences;
};

// One matrix for each of `steps`, counted as one worker counts them; a whole run of one worker
// makes `stepsOfOne`. Checkpoints are in RUNS/ID/0/training; variants that lack one of a step are
// left out of its matrix.
std::vector<EqualityMatrix> compareAll(const std::vector<Variant>& variants,
                                       const std::vector<std::int64_t>& steps,
                                       std::int64_t stepsOfOne, const std::string& runs);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EqualityMatrix, step, variants, differences)

}  // namespace colla::study
