#include "models/catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest.h"
#include "models/image_model.h"
#include "models/makers.h"

namespace colla::models {
namespace {

constexpr char kMnist[] = "synthetic:mnist";
constexpr char kCifar[] = "synthetic:cifar10";
constexpr Flag kHidden = {"hidden", "100", "units of each hidden layer"};

}  // namespace

DataShape shapeOf(const Dataset& dataset) {
  return {dataset.fields(), dataset.classes(), dataset.symbols(), dataset.words()};
}

Result<ReadOptions> readOptions(const Entry& entry, const Values& values) {
  if (!entry.reads) return ReadOptions();
  return entry.reads(values);
}

Result<std::string> adviceOf(const Entry& entry, const Values& values) {
  if (!entry.advice) return std::string();
  return entry.advice(values);
}

std::span<const Entry> catalog() {
  static const std::vector<Entry> entries = {
      {.name = "deepfam",
       .summary = "protein families: convolutions of letters, maximum, dense layer",
       .data = "synthetic:gpcr",
       .optimizer = Adam{.lr = 1e-3},
       .flags = {{"windows", "8,12,16,20,24,28,32,36", "window lengths of the convolutions"},
                 {"filters", "256", "filters of each convolution"},
                 {"hidden", "2000", "units of the dense layer"},
                 {"keep-prob", "0.7", "share of the filters' values that dropout keeps"},
                 {"length", "1000", "letters of a sequence: longer ones are cut"},
                 {"norm", "batch", "normalisation of the convolutions: batch or none"}},
       .reads = readsDeepFam,
       .make = makeDeepFam},
      {.name = "im2txt",
       .summary = "Show and Tell: captions for images by Inception-v3 and an LSTM",
       .data = "synthetic:captions",
       .optimizer = Sgd{.lr = 2.0},
       .batch = 32,
       // Half after every eight epochs of the published data.
       .schedule = {.shape = StepRate{.every = 146'590, .factor = 0.5}},
       .clipNorm = 5,
       .flags = captionFlags(),
       .reads = captionReads,
       .make = makeCaptions,
       .advice = captionAdvice},
      {.name = "inceptionv3",
       .summary = "Inception-v3 as in Keras",
       .data = kCifar,
       .optimizer = Sgd{.lr = 0.01},
       .batch = 32,
       .flags = imageFlags("299x299"),
       .reads = imageReads,
       .make = makeInceptionV3,
       .advice = imageAdvice},
      {.name = "lm",
       .summary = "language model: embedding, LSTM with projection, sampled softmax",
       .data = "synthetic:text",
       .optimizer = Adagrad{.lr = 0.2, .initialAccumulator = 0.1},
       .batch = 128,
       .clipNorm = 10,
       .flags = languageFlags(),
       .reads = languageReads,
       .make = makeLanguage},
      {.name = "lr",
       .summary = "logistic regression on two classes",
       .data = "synthetic:lr:10000x1000",
       .optimizer = Sgd{.lr = 0.1},
       .flags = {},
       .reads = nullptr,
       .make = makeLogistic},
      {.name = "mlp",
       .summary = "two hidden layers with ReLU",
       .data = kMnist,
       .optimizer = Sgd{.lr = 0.1},
       .flags = {kHidden},
       .reads = nullptr,
       .make = makeMlp},
      {.name = "resnet50v2",
       .summary = "ResNet-50 V2 as in Keras",
       .data = kCifar,
       .optimizer = Sgd{.lr = 0.01},
       .batch = 32,
       .flags = imageFlags("128x128"),
       .reads = imageReads,
       .make = makeResNet50V2,
       .advice = imageAdvice},
      {.name = "resnet101v2",
       .summary = "ResNet-101 V2 as in Keras",
       .data = kCifar,
       .optimizer = Sgd{.lr = 0.01},
       .batch = 32,
       .flags = imageFlags("128x128"),
       .reads = imageReads,
       .make = makeResNet101V2,
       .advice = imageAdvice},
      {.name = "resnet152v2",
       .summary = "ResNet-152 V2 as in Keras",
       .data = kCifar,
       .optimizer = Sgd{.lr = 0.01},
       .batch = 32,
       .flags = imageFlags("128x128"),
       .reads = imageReads,
       .make = makeResNet152V2,
       .advice = imageAdvice},
      {.name = "snn",
       .summary = "one hidden layer with ReLU",
       .data = kMnist,
       .optimizer = Sgd{.lr = 0.1},
       .flags = {kHidden},
       .reads = nullptr,
       .make = makeSnn},
      {.name = "softmax",
       .summary = "softmax regression: one linear layer",
       .data = kMnist,
       .optimizer = Sgd{.lr = 0.1},
       .flags = {},
       .reads = nullptr,
       .make = makeSoftmax},
  };
  return entries;
}

Result<const Entry*> findModel(std::string_view name) {
  std::vector<std::string> names;
  for (const Entry& entry : catalog()) {
    if (entry.name == name) return &entry;
    names.emplace_back(entry.name);
  }
  return {StatusCode::kNotFound, fmt::format("there is no model \"{}\"; there are {}{}", name,
                                             fmt::join(names, ", "), didYouMean(name, names))};
}

}  // namespace colla::models
