#include "bench/train_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "colla/random.h"
#include "data/synthetic/synthetic.h"

namespace colla::bench {
namespace {

Status writeFile(const std::string& name, std::span<const std::byte> bytes) {
  std::ofstream out(name, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) {
    return {StatusCode::kIo,
            fmt::format("write {} ({:.1f} GB): {}", name, static_cast<double>(bytes.size()) / 1e9,
                        std::strerror(errno))};
  }
  return {};
}

// Real proteins are shorter than DeepFam's input, and what is padding costs Colla nothing: here
// they are repeated to its end, so that what is measured is the most that a step can take.
Result<Array> withoutPadding(const Array& sequences) {
  COLLA_TRY_ASSIGN(Array full, Array::allocate(sequences.type(), sequences.shape()));
  const auto from = sequences.as<std::uint8_t>();
  const auto to = full.as<std::uint8_t>();
  const auto length = static_cast<std::size_t>(sequences.shape().at(1));
  for (std::size_t row = 0; row < from.size(); row += length) {
    const auto sample = from.subspan(row, length);
    const auto used = static_cast<std::size_t>(std::ranges::find(sample, 0) - sample.begin());
    for (std::size_t i = 0; i < length; ++i) to[row + i] = sample[i % used];
  }
  return full;
}

Result<Batch> makeData(const TrainModel& model, std::int64_t samples) {
  COLLA_TRY_ASSIGN(const auto data, model.letters ? data::syntheticGpcr(samples, Part::kTrain)
                                    : model.binary()
                                        ? data::syntheticLr(samples, model.features(), Part::kTrain)
                                        : data::syntheticMnist(samples, Part::kTrain));
  std::vector<std::int64_t> all(static_cast<std::size_t>(samples));
  std::iota(all.begin(), all.end(), 0);
  Random unused(0);
  COLLA_TRY_ASSIGN(Batch batch, data->read(all, unused));
  if (model.letters) {
    COLLA_TRY_ASSIGN(batch[0], withoutPadding(batch[0]));
  }
  return batch;
}

std::vector<float> makeWeights(const TrainModel& model) {
  std::vector<float> weights;
  Random random(1);
  for (const auto& [count, bound] : model.weights) {
    for (std::int64_t i = 0; i < count; ++i) {
      const double unit = static_cast<double>(random.next() >> 11) * 0x1p-53;
      weights.push_back(static_cast<float>(bound * (2 * unit - 1)));
    }
  }
  return weights;
}

// As torch.nn.Linear begins: uniform within 1 / sqrt(inputs).
TrainModel linear(std::string_view name, std::vector<std::int64_t> widths, std::int64_t samples,
                  double rate) {
  TrainModel model{.name = name,
                   .widths = std::move(widths),
                   .samples = samples,
                   .batches = {100, 500},
                   .rate = rate,
                   .weights = {}};
  for (std::size_t layer = 1; layer < model.widths.size(); ++layer) {
    const std::int64_t inputs = model.widths[layer - 1];
    model.weights.push_back(
        {model.widths[layer] * (inputs + 1), 1 / std::sqrt(static_cast<double>(inputs))});
  }
  return model;
}

// Of the published size, on the 48 families of synthetic:gpcr. Without dropout: every system draws
// other random numbers.
TrainModel deepFam(std::string_view name) {
  constexpr std::int64_t kClasses = 21, kFilters = 256, kHidden = 2000, kFamilies = 48;
  TrainModel model{.name = name,
                   .widths = {1000, kFamilies},
                   .samples = 640,
                   .batches = {32},
                   .rate = 1e-3,
                   .weights = {},
                   .letters = true,
                   .batchStatistics = true,
                   .verifySteps = 4};
  std::int64_t features = 0;
  for (std::int64_t window = 8; window <= 36; window += 4) {
    model.weights.push_back({kFilters * kClasses * window, 0.1});
    model.weights.push_back({kFilters, 0});
    features += kFilters;
  }
  model.weights.push_back({features * kHidden, 0.05});
  model.weights.push_back({kHidden, 0});
  model.weights.push_back({(kHidden + 1) * kFamilies, 0.02});
  return model;
}

}  // namespace

std::span<const TrainModel> trainModels() {
  static const std::array models = {
      linear("lr", {10'000, 1}, 10'000, 0.05),
      linear("softmax", {784, 10}, 60'000, 0.05),
      linear("snn", {784, 100, 10}, 60'000, 0.1),
      linear("mlp", {784, 100, 100, 10}, 60'000, 0.2),
      deepFam("deepfam"),
      deepFam("deepfam-none"),
  };
  return models;
}

Result<const TrainModel*> parseTrainModel(std::string_view name) {
  const auto models = trainModels();
  const auto it = std::ranges::find(models, name, &TrainModel::name);
  if (it != models.end()) return &*it;
  std::vector<std::string_view> names;
  for (const TrainModel& model : models) names.push_back(model.name);
  return {StatusCode::kInvalidArgument,
          fmt::format("there is no model \"{}\", only {}", name, fmt::join(names, ", "))};
}

Status writeTrainFiles(const TrainModel& model, std::int64_t samples, const std::string& path) {
  COLLA_TRY_ASSIGN(const Batch data, makeData(model, samples));
  COLLA_TRY(writeFile(path + ".x", data[0].bytes()));
  COLLA_TRY(writeFile(path + ".y", data[1].bytes()));
  const std::vector<float> weights = makeWeights(model);
  return writeFile(path + ".w", std::as_bytes(std::span(weights)));
}

void removeTrainFiles(const std::string& path) {
  std::error_code ignored;
  for (const char* end : {".x", ".y", ".w"}) std::filesystem::remove(path + end, ignored);
}

std::size_t trainFileBytes(const TrainModel& model, std::int64_t samples) {
  return static_cast<std::size_t>(samples * (model.features() + 2)) * sizeof(float);
}

}  // namespace colla::bench
