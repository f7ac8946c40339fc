#include "bench/worker/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>
#include <span>
#include <vector>

#include "colla/random.h"
#include "data/synthetic/synthetic.h"
#include "models/catalog.h"

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

// Real proteins are shorter than DeepFam's input, and padding costs Colla nothing. Here they are
// repeated to its end, so that a step takes the most that it can.
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

Result<std::shared_ptr<const Dataset>> openData(const BenchModel& model, std::int64_t samples) {
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
      return data::syntheticText(samples * options.length + 1, model.symbols, part,
                                 data::kSyntheticSeed, options);
  }
  return {StatusCode::kInternal, "there is no such data"};
}

Result<Batch> makeData(const BenchModel& model, std::int64_t samples) {
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

std::vector<float> firstWeights(const MakeModel& make) {
  torch::manual_seed(1);
  std::vector<float> weights;
  for (const torch::Tensor& parameter : make()->module().parameters()) {
    if (!parameter.requires_grad()) continue;
    const torch::Tensor values = parameter.detach().contiguous();
    weights.insert(weights.end(), values.data_ptr<float>(),
                   values.data_ptr<float>() + values.numel());
  }
  return weights;
}

}  // namespace

Result<MakeModel> makerOf(const BenchModel& model) {
  COLLA_TRY_ASSIGN(const models::Entry* const entry, models::findModel(model.catalogName));
  const models::DataShape shape{
      {{"input", model.inputType(), model.input}, {"target", DataType::kInt64, model.target}},
      model.classes,
      model.symbols};
  models::Values values(model.flags.begin(), model.flags.end());
  values.merge(models::defaults(entry->flags));
  return entry->make(shape, values);
}

Status writeFiles(const BenchModel& model, std::int64_t samples, const std::string& path) {
  COLLA_TRY_ASSIGN(const Batch data, makeData(model, samples));
  COLLA_TRY(writeFile(path + ".x", data[0].bytes()));
  COLLA_TRY(writeFile(path + ".y", data[1].bytes()));
  COLLA_TRY_ASSIGN(const MakeModel make, makerOf(model));
  const std::vector<float> weights = firstWeights(make);
  return writeFile(path + ".w", std::as_bytes(std::span(weights)));
}

}  // namespace colla::bench
