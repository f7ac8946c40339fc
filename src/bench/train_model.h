// The models of `colla bench train`: what each is trained on, and how it begins.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::bench {

// So many numbers, at most `bound` away from `middle`.
struct FirstWeights {
  std::int64_t count;
  double bound;
  double middle = 0;
};

// What a model learns from; all of it is synthetic.
enum class TrainData : std::uint8_t { kFeatures, kDigits, kProteins, kImages, kText };

// The samples of a step: over all workers, or of each of them.
struct BatchSize {
  std::int64_t count = 0;
  bool perWorker = false;

  std::int64_t ofWorker(int workers) const { return perWorker ? count : count / workers; }
  std::int64_t ofAll(int workers) const { return perWorker ? count * workers : count; }
  friend bool operator==(const BatchSize&, const BatchSize&) = default;
};
// "32", or "8/worker".
std::string toString(const BatchSize& batch);

struct TrainModel {
  std::string_view name;
  TrainData data = TrainData::kDigits;
  std::vector<std::int64_t> input;    // The shape of a sample.
  std::vector<std::int64_t> target;   // The same; empty: one number.
  std::int64_t classes = 0;           // Targets are smaller.
  std::int64_t samples = 0;           // Of its data set, unless told otherwise.
  std::vector<BatchSize> batches;     // The same.
  double rate = 0;                    // Too small to diverge, however long it is measured.
  std::vector<FirstWeights> weights;  // In the order of the parameters.

  bool batchStatistics = false;  // The loss depends on how the batch is cut into workers' shares.
  int verifySteps = 20;          // For the comparison of the systems' losses.
  std::size_t workerBytes = 300'000'000;  // What a worker takes beside the data, roughly.

  DataType inputType() const;
};

std::span<const TrainModel> trainModels();
// kInvalidArgument with the names that there are.
Result<const TrainModel*> parseTrainModel(std::string_view name);

}  // namespace colla::bench
