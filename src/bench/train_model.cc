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

Result<Batch> makeData(const TrainModel& model, std::int64_t samples) {
  COLLA_TRY_ASSIGN(const auto data, model.binary()
                                        ? data::syntheticLr(samples, model.features(), Part::kTrain)
                                        : data::syntheticMnist(samples, Part::kTrain));
  std::vector<std::int64_t> all(static_cast<std::size_t>(samples));
  std::iota(all.begin(), all.end(), 0);
  Random unused(0);
  return data->read(all, unused);
}

// As torch.nn.Linear begins: uniform within 1 / sqrt(inputs).
std::vector<float> makeWeights(const TrainModel& model) {
  std::vector<float> weights;
  Random random(1);
  for (std::size_t layer = 1; layer < model.widths.size(); ++layer) {
    const std::int64_t inputs = model.widths[layer - 1];
    const double bound = 1 / std::sqrt(static_cast<double>(inputs));
    const std::int64_t count = model.widths[layer] * (inputs + 1);
    for (std::int64_t i = 0; i < count; ++i) {
      const double unit = static_cast<double>(random.next() >> 11) * 0x1p-53;
      weights.push_back(static_cast<float>(bound * (2 * unit - 1)));
    }
  }
  return weights;
}

}  // namespace

std::span<const TrainModel> trainModels() {
  static const std::array<TrainModel, 4> models = {{
      {"lr", {10'000, 1}, 10'000, 0.05},
      {"softmax", {784, 10}, 60'000, 0.05},
      {"snn", {784, 100, 10}, 60'000, 0.1},
      {"mlp", {784, 100, 100, 10}, 60'000, 0.2},
  }};
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
  if (model.binary()) {
    const auto classes = data[1].as<std::int64_t>();
    const std::vector<float> targets(classes.begin(), classes.end());
    COLLA_TRY(writeFile(path + ".y", std::as_bytes(std::span(targets))));
  } else {
    COLLA_TRY(writeFile(path + ".y", data[1].bytes()));
  }
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
