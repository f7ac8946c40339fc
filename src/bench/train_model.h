// The models of `colla bench train`, and the files from which every system gets the same data and
// the same first weights.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colla/status.h"

namespace colla::bench {

// Linear layers with ReLU between them.
struct TrainModel {
  std::string_view name;
  std::vector<std::int64_t> widths;  // Of the input, of every hidden layer, of the output.
  std::int64_t samples = 0;          // Of its data set, unless told otherwise.
  double rate = 0;                   // Of SGD: too small to diverge, however long it is measured.

  // One logit and its binary cross entropy; otherwise one logit per class and cross entropy.
  bool binary() const { return widths.back() == 1; }
  std::int64_t features() const { return widths.front(); }
};

std::span<const TrainModel> trainModels();
// kInvalidArgument with the names that there are.
Result<const TrainModel*> parseTrainModel(std::string_view name);

// Writes, each in the order and the types of this machine and nothing else:
//   PATH.x  inputs, float32, one row per sample
//   PATH.y  targets: float32 for a binary model, int64 for classes
//   PATH.w  first weights, float32: of each layer first the matrix (output x input), then the bias
Status writeTrainFiles(const TrainModel& model, std::int64_t samples, const std::string& path);
void removeTrainFiles(const std::string& path);
// What they take.
std::size_t trainFileBytes(const TrainModel& model, std::int64_t samples);

}  // namespace colla::bench
