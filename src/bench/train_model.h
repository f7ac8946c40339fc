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

// So many numbers, from -bound to bound.
struct FirstWeights {
  std::int64_t count;
  double bound;
};

// Linear layers with ReLU between them, or DeepFam.
struct TrainModel {
  std::string_view name;
  std::vector<std::int64_t> widths;   // Of the input, of every hidden layer, of the output.
  std::int64_t samples = 0;           // Of its data set, unless told otherwise.
  std::vector<std::int64_t> batches;  // The same.
  double rate = 0;                    // Too small to diverge, however long it is measured.
  std::vector<FirstWeights> weights;  // In the order of the parameters.

  bool letters = false;  // DeepFam: the inputs are letters of proteins, the optimizer is Adam.
  bool batchStatistics = false;  // The loss depends on how the batch is cut into workers' shares.
  int verifySteps = 20;          // For the comparison of the systems' losses.

  // One logit and its binary cross entropy; otherwise one logit per class and cross entropy.
  bool binary() const { return widths.back() == 1; }
  std::int64_t features() const { return widths.front(); }
};

std::span<const TrainModel> trainModels();
// kInvalidArgument with the names that there are.
Result<const TrainModel*> parseTrainModel(std::string_view name);

// Writes, each in the order and the types of this machine and nothing else:
//   PATH.x  inputs, float32 (letters: uint8), one row per sample
//   PATH.y  targets, int64
//   PATH.w  first weights, float32: of each layer first the matrix (output x input), then the bias;
//           of DeepFam those of each convolution, then of fc1 and fc2
Status writeTrainFiles(const TrainModel& model, std::int64_t samples, const std::string& path);
void removeTrainFiles(const std::string& path);
// What they take.
std::size_t trainFileBytes(const TrainModel& model, std::int64_t samples);

}  // namespace colla::bench
