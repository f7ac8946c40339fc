// The models that benchmarks train, in one list: what each is made of, what it is trained on, and
// how it is measured.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::bench {

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

struct BenchModel {
  std::string name;
  std::string
      catalogName;  // In models/catalog.h, with these flags changed. Always without dropout,
  std::map<std::string, std::string> flags = {};  // because every system draws other numbers.

  TrainData data = TrainData::kDigits;
  std::vector<std::int64_t> input = {};   // The shape of a sample.
  std::vector<std::int64_t> target = {};  // The same; empty: one number.
  std::int64_t classes = 0;               // 0: targets are not classes.
  std::int64_t symbols = 0;               // Letters or words; 0: samples are numbers.

  std::int64_t samples = 0;             // Of its data set, unless the user says otherwise.
  std::vector<BatchSize> batches = {};  // The same.
  double rate = 0;                      // Too small to diverge, however long it is measured.
  bool batchStatistics = false;         // The loss depends on how the batch is cut into shares.
  int verifySteps = 20;                 // After which the systems' losses are compared.
  // Roughly: of the first weights, and what a worker takes beside the data.
  std::size_t weightBytes = 1'000'000;
  std::size_t workerBytes = 300'000'000;

  DataType inputType() const;
  // What the files of worker/files.h take.
  std::size_t fileBytes(std::int64_t samples) const;
};

std::span<const BenchModel> benchModels();
// kInvalidArgument with the names that there are.
Result<const BenchModel*> parseModel(std::string_view name);

}  // namespace colla::bench
