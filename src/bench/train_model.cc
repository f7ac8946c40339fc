#include "bench/train_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace colla::bench {
namespace {

// Linear layers with ReLU between them, as torch.nn.Linear begins: uniform within 1 / sqrt(inputs).
TrainModel linear(std::string_view name, const std::vector<std::int64_t>& widths,
                  std::int64_t samples, double rate) {
  TrainModel model;
  model.name = name;
  // One logit and its binary cross entropy; otherwise one logit per class and cross entropy.
  const bool binary = widths.back() == 1;
  model.data = binary ? TrainData::kFeatures : TrainData::kDigits;
  model.input = {widths.front()};
  model.classes = binary ? 2 : widths.back();
  model.samples = samples;
  model.batches = {{100}, {500}};
  model.rate = rate;
  for (std::size_t layer = 1; layer < widths.size(); ++layer) {
    const std::int64_t inputs = widths[layer - 1];
    model.weights.push_back(
        {widths[layer] * (inputs + 1), 1 / std::sqrt(static_cast<double>(inputs))});
  }
  return model;
}

// Of the published size, on the 48 families of synthetic:gpcr. Without dropout: every system draws
// other random numbers.
TrainModel deepFam(std::string_view name) {
  constexpr std::int64_t kClasses = 21, kFilters = 256, kHidden = 2000, kFamilies = 48;
  TrainModel model;
  model.name = name;
  model.data = TrainData::kProteins;
  model.input = {1000};
  model.classes = kFamilies;
  model.samples = 640;
  model.batches = {{32}};
  model.rate = 1e-3;
  model.batchStatistics = true;
  model.verifySteps = 4;
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

// The parameters of ResNet-50 V2 in their order, as Keras begins: glorot_uniform, biases 0,
// normalisations 1 and 0.
std::vector<FirstWeights> resNetWeights(std::int64_t classes) {
  std::vector<FirstWeights> weights;
  const auto layer = [&](std::int64_t in, std::int64_t out, std::int64_t size, bool bias) {
    const auto area = size * size;
    const auto fans = static_cast<double>((in + out) * area);
    weights.push_back({in * out * area, std::sqrt(6 / fans)});
    if (bias) weights.push_back({out, 0});
  };
  const auto norm = [&](std::int64_t channels) {
    weights.push_back({channels, 0, 1});
    weights.push_back({channels, 0});
  };
  layer(3, 64, 7, true);
  std::int64_t width = 64;
  std::int64_t filters = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      norm(width);
      layer(width, filters, 1, false);
      norm(filters);
      layer(filters, filters, 3, false);
      norm(filters);
      layer(filters, 4 * filters, 1, true);
      if (block == 0) layer(width, 4 * filters, 1, true);
      width = 4 * filters;
    }
    filters *= 2;
  }
  norm(width);
  layer(width, classes, 1, true);
  return weights;
}

// The same of Inception-v3: convolutions without bias, each with a normalisation that only shifts.
std::vector<FirstWeights> inceptionWeights(std::int64_t classes) {
  struct Step {
    std::int64_t out, height, width;
  };
  std::vector<FirstWeights> weights;
  // One behind the other; the channels that come out.
  const auto chain = [&](std::int64_t in, const std::vector<Step>& steps) {
    for (const auto& [out, height, width] : steps) {
      const auto area = height * width;
      weights.push_back({in * out * area, std::sqrt(6 / static_cast<double>((in + out) * area))});
      weights.push_back({out, 0});
      in = out;
    }
    return in;
  };
  chain(3, {{32, 3, 3}, {32, 3, 3}, {64, 3, 3}, {80, 1, 1}, {192, 3, 3}});
  std::int64_t width = 192;
  for (const std::int64_t pool : {32, 64, 64}) {
    width = chain(width, {{64, 1, 1}}) + chain(width, {{48, 1, 1}, {64, 5, 5}}) +
            chain(width, {{64, 1, 1}, {96, 3, 3}, {96, 3, 3}}) + chain(width, {{pool, 1, 1}});
  }
  width += chain(width, {{384, 3, 3}}) + chain(width, {{64, 1, 1}, {96, 3, 3}, {96, 3, 3}});
  for (const std::int64_t m : {128, 160, 160, 192}) {
    width = chain(width, {{192, 1, 1}}) + chain(width, {{m, 1, 1}, {m, 1, 7}, {192, 7, 1}}) +
            chain(width, {{m, 1, 1}, {m, 7, 1}, {m, 1, 7}, {m, 7, 1}, {192, 1, 7}}) +
            chain(width, {{192, 1, 1}});
  }
  width += chain(width, {{192, 1, 1}, {320, 3, 3}}) +
           chain(width, {{192, 1, 1}, {192, 1, 7}, {192, 7, 1}, {192, 3, 3}});
  for (int last = 0; last < 2; ++last) {
    chain(width, {{320, 1, 1}});
    chain(width, {{384, 1, 1}});
    chain(384, {{384, 1, 3}});
    chain(384, {{384, 3, 1}});
    chain(width, {{448, 1, 1}, {384, 3, 3}});
    chain(384, {{384, 1, 3}});
    chain(384, {{384, 3, 1}});
    chain(width, {{192, 1, 1}});
    width = 2048;
  }
  chain(width, {{classes, 1, 1}});  // The dense layer, and its bias.
  return weights;
}

TrainModel imageNet(std::string_view name) {
  TrainModel model;
  model.name = name;
  model.data = TrainData::kImages;
  model.input = {3, 128, 128};
  model.classes = 10;
  model.samples = 160;
  model.batches = {{8, true}};
  model.rate = 0.01;
  model.weights =
      name == "inceptionv3" ? inceptionWeights(model.classes) : resNetWeights(model.classes);
  model.batchStatistics = true;
  // First gradients in float32 are 2 to 7 % off those in float64, in PyTorch too, and so second
  // losses up to 8 %: the first says more.
  model.verifySteps = 1;
  model.workerBytes = 1'000'000'000;
  return model;
}

// The catalog's sizes but for the vocabulary. Without dropout, as DeepFam.
TrainModel languageModel() {
  constexpr std::int64_t kWords = 200'000, kEmbedding = 128, kUnits = 256, kProjection = 128;
  TrainModel model;
  model.name = "lm";
  model.data = TrainData::kText;
  model.input = {20};
  model.target = {20};
  model.classes = kWords;
  model.samples = 6'400;
  model.batches = {{16, true}};
  model.rate = 0.2;
  const auto bound = [](std::int64_t numbers) {
    return 1 / std::sqrt(static_cast<double>(numbers));
  };
  model.weights = {{kWords * kEmbedding, bound(kEmbedding)},
                   {4 * kUnits * (kEmbedding + kProjection), bound(kUnits)},
                   // Of the gates: the forget gate's begins with 1.
                   {kUnits, 0},
                   {kUnits, 0, 1},
                   {2 * kUnits, 0},
                   {4 * kUnits, 0},
                   {kProjection * kUnits, bound(kUnits)},
                   {kWords * kProjection, bound(kProjection)},
                   {kWords, 0}};
  model.workerBytes = 900'000'000;
  return model;
}

}  // namespace

std::string toString(const BatchSize& batch) {
  return fmt::format("{}{}", batch.count, batch.perWorker ? "/worker" : "");
}

DataType TrainModel::inputType() const {
  switch (data) {
    case TrainData::kProteins:
      return DataType::kUInt8;
    case TrainData::kText:
      return DataType::kInt64;
    default:
      return DataType::kFloat32;
  }
}

std::span<const TrainModel> trainModels() {
  static const std::array models = {
      linear("lr", {10'000, 1}, 10'000, 0.05),
      linear("softmax", {784, 10}, 60'000, 0.05),
      linear("snn", {784, 100, 10}, 60'000, 0.1),
      linear("mlp", {784, 100, 100, 10}, 60'000, 0.2),
      deepFam("deepfam"),
      deepFam("deepfam-none"),
      imageNet("resnet50v2"),
      imageNet("inceptionv3"),
      languageModel(),
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

}  // namespace colla::bench
