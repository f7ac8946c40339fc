#include "bench/train_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

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

Result<std::shared_ptr<const Dataset>> openData(const TrainModel& model, std::int64_t samples) {
  const auto part = Part::kTrain;
  ReadOptions options;
  switch (model.data) {
    case TrainData::kFeatures:
      return data::syntheticLr(samples, model.input[0], part);
    case TrainData::kDigits:
      return data::syntheticMnist(samples, part);
    case TrainData::kProteins:
      return data::syntheticGpcr(samples, part);
    case TrainData::kImages:
      options.height = model.input[1];
      options.width = model.input[2];
      return data::syntheticCifar10(samples, part, data::kSyntheticSeed, options);
    case TrainData::kText:
      options.length = model.input[0];
      // The last sample has a word that follows, too.
      return data::syntheticText(samples * options.length + 1, model.classes, part,
                                 data::kSyntheticSeed, options);
  }
  return {StatusCode::kInternal, "there is no such data"};
}

Result<Batch> makeData(const TrainModel& model, std::int64_t samples) {
  COLLA_TRY_ASSIGN(const auto data, openData(model, samples));
  std::vector<std::int64_t> all(static_cast<std::size_t>(samples));
  std::iota(all.begin(), all.end(), 0);
  Random unused(0);
  COLLA_TRY_ASSIGN(Batch batch, data->read(all, unused));
  if (model.data == TrainData::kProteins) {
    COLLA_TRY_ASSIGN(batch[0], withoutPadding(batch[0]));
  }
  return batch;
}

std::int64_t product(std::span<const std::int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t countWeights(const TrainModel& model) {
  std::int64_t count = 0;
  for (const FirstWeights& some : model.weights) count += some.count;
  return count;
}

std::vector<float> makeWeights(const TrainModel& model) {
  std::vector<float> weights;
  weights.reserve(static_cast<std::size_t>(countWeights(model)));
  Random random(1);
  for (const auto& [count, bound, middle] : model.weights) {
    for (std::int64_t i = 0; i < count; ++i) {
      const double unit = static_cast<double>(random.next() >> 11) * 0x1p-53;
      weights.push_back(static_cast<float>(middle + bound * (2 * unit - 1)));
    }
  }
  return weights;
}

}  // namespace

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
  const auto sample = static_cast<std::size_t>(product(model.input)) * sizeOf(model.inputType()) +
                      static_cast<std::size_t>(product(model.target)) * sizeof(std::int64_t);
  return static_cast<std::size_t>(samples) * sample +
         static_cast<std::size_t>(countWeights(model)) * sizeof(float);
}

}  // namespace colla::bench
