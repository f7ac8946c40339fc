// The files from which every system of `colla bench train` gets the same data and the same first
// weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/train_model.h"
#include "colla/status.h"

namespace colla::bench {

// Writes, each in the order and the types of this machine and nothing else:
//   PATH.x  inputs, of inputType(), one row per sample
//   PATH.y  targets, int64
//   PATH.w  first weights, float32, in the order of the parameters
Status writeTrainFiles(const TrainModel& model, std::int64_t samples, const std::string& path);
void removeTrainFiles(const std::string& path);
// What they take.
std::size_t trainFileBytes(const TrainModel& model, std::int64_t samples);

}  // namespace colla::bench
