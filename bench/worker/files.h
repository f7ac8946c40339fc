// The files from which every system of a benchmark gets the same data and the same first weights.
#pragma once

#include <cstdint>
#include <string>

#include "bench/models.h"
#include "colla/model.h"
#include "colla/status.h"

namespace colla::bench {

// The catalog's model, with its metrics, which the peers do not compute.
Result<MakeModel> makerOf(const BenchModel& model);

// Writes, each in the order and the types of this machine and nothing else:
//   PATH.x  inputs, of inputType(), one row per sample
//   PATH.y  targets, int64
//   PATH.w  first weights as the model begins, float32, in the order of the parameters
Status writeFiles(const BenchModel& model, std::int64_t samples, const std::string& path);

}  // namespace colla::bench
