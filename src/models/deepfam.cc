// DeepFam (Seo, Oh, Park, Kim: DeepFam: deep learning based alignment-free method for protein
// family modeling and prediction, Bioinformatics 2018): convolutions of several window lengths over
// the letters of a protein, the largest value of each filter, a dense layer, a softmax over
// families.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "models/classifier.h"
#include "models/fused_convolution.h"
#include "models/linear.h"
#include "models/makers.h"
#include "models/shift_norm.h"

namespace colla::models {
namespace {

// Of the last layer's weights: this times half of the sum of their squares is added to the loss.
constexpr double kL2 = 1e-3;
// As published, of every layer that has a bias; weights begin as Glorot's, uniform.
constexpr double kFirstBias = 0.1;

struct DeepFamOptions {
  std::vector<std::int64_t> windows;
  std::int64_t filters = 0;
  std::int64_t hidden = 0;
  std::int64_t length = 0;
  std::int64_t classes = 0;
  double keep = 0;
  bool norm = false;  // Of the convolutions; the dense layer always has one.
};

// Named by window: conv8.weight, conv8_norm.bias, … A layer that a normalisation follows needs no
// bias.
struct DeepFamImpl : torch::nn::Module {
  explicit DeepFamImpl(const DeepFamOptions& options)
      : keep(options.keep), longest(std::ranges::max(options.windows)) {
    for (const std::int64_t window : options.windows) {
      const auto name = fmt::format("conv{}", window);
      convolutions.push_back(register_module(
          name,
          torch::nn::Conv1d(torch::nn::Conv1dOptions(kernels::kClasses, options.filters, window)
                                .bias(!options.norm))));
      torch::nn::init::xavier_uniform_(convolutions.back()->weight);
      if (!options.norm) torch::nn::init::constant_(convolutions.back()->bias, kFirstBias);
      if (options.norm) {
        norms.push_back(register_module(name + "_norm", ShiftNorm(options.filters)));
      }
    }
    const auto features = static_cast<std::int64_t>(options.windows.size()) * options.filters;
    fc1 = register_module(
        "fc1", torch::nn::Linear(torch::nn::LinearOptions(features, options.hidden).bias(false)));
    torch::nn::init::xavier_uniform_(fc1->weight);
    fc1Norm = register_module("fc1_norm", ShiftNorm(options.hidden));
    fc2 = register_module("fc2", torch::nn::Linear(options.hidden, options.classes));
    torch::nn::init::xavier_uniform_(fc2->weight);
    torch::nn::init::constant_(fc2->bias, kFirstBias);
  }

  torch::Tensor forward(const torch::Tensor& sequence) {
    const auto batch = c10::make_intrusive<LetterBatch>(sequence, longest);
    std::vector<torch::Tensor> maxima;
    for (std::size_t i = 0; i < convolutions.size(); ++i) {
      maxima.push_back(largest(batch, i).relu_());
    }
    torch::Tensor x = torch::cat(maxima, 1);
    x = torch::dropout(x, 1 - keep, is_training());
    x = fc1Norm->forward(linear(x, fc1->weight, fc1->bias)).relu_();
    return fc2->forward(x);
  }

  // Each filter's largest value, before ReLU.
  torch::Tensor largest(const LetterBatchPtr& batch, std::size_t i) {
    const torch::Tensor& weight = convolutions[i]->weight;
    if (norms.empty()) return maxConvolution(batch, weight) + convolutions[i]->bias;
    ShiftNormImpl& norm = *norms[i];
    if (!is_training()) return norm.withKept(maxConvolution(batch, weight));
    const Normalised found = normalisedMaxConvolution(batch, weight, ShiftNormImpl::kEpsilon);
    norm.update(found.mean, found.variance, found.positions);
    return found.value + norm.bias;
  }

  const double keep;
  const std::int64_t longest;
  std::vector<torch::nn::Conv1d> convolutions;
  std::vector<ShiftNorm> norms;
  torch::nn::Linear fc1 = nullptr;
  ShiftNorm fc1Norm = nullptr;
  torch::nn::Linear fc2 = nullptr;
};

class DeepFam final : public Model, public Predicts {
 public:
  explicit DeepFam(const DeepFamOptions& options) : net_(options) {}
  torch::nn::Module& module() override { return net_; }
  std::vector<std::string> metrics() const override { return {"accuracy"}; }
  Output compute(const std::vector<torch::Tensor>& batch) override {
    const torch::Tensor logits = net_.forward(batch.at(0));
    const torch::Tensor loss = torch::nn::functional::cross_entropy(logits, batch.at(1));
    return {loss + net_.fc2->weight.square().sum() * (kL2 / 2), {accuracyOf(logits, batch.at(1))}};
  }
  std::vector<Column> predict(const std::vector<torch::Tensor>& batch) override {
    return classColumns(net_.forward(batch.at(0)));
  }

 private:
  DeepFamImpl net_;
};

// "8,12,16"
Result<std::vector<std::int64_t>> windowsOf(const Values& values, std::int64_t length) {
  const std::string& text = values.find("windows")->second;
  std::vector<std::int64_t> windows;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::int64_t window = 0;
    const auto [next, error] = std::from_chars(at, end, window);
    if (error != std::errc() || window < 1 || window > length ||
        std::ranges::count(windows, window) > 0 || (next != end && *next != ',')) {
      return {StatusCode::kInvalidArgument,
              fmt::format("--windows is \"{}\", but takes different whole numbers from 1 to {} "
                          "(--length), with commas between them",
                          text, length)};
    }
    windows.push_back(window);
    if (next == end) return windows;
    at = next + 1;
  }
}

Status checkData(const DataShape& data, std::int64_t length) {
  if (data.fields.size() != 2 || data.classes < 2 || data.fields.front().type != DataType::kUInt8 ||
      data.symbols != kernels::kLetters) {
    return {StatusCode::kInvalidArgument,
            "deepfam takes sequences of protein letters and a family: label<TAB>sequence files, "
            "FASTA with labels or synthetic:gpcr"};
  }
  if (data.fields.front().shape != std::vector{length}) {
    return {StatusCode::kInvalidArgument,
            fmt::format("the sequences are not of {} letters, which --length says", length)};
  }
  return {};
}

}  // namespace

Result<ReadOptions> readsDeepFam(const Values& values) {
  ReadOptions options;
  COLLA_TRY_ASSIGN(options.length, wholeNumber(values, "length", 1));
  return options;
}

Result<MakeModel> makeDeepFam(const DataShape& data, const Values& values) {
  DeepFamOptions options;
  COLLA_TRY_ASSIGN(options.length, wholeNumber(values, "length", 1));
  COLLA_TRY(checkData(data, options.length));
  COLLA_TRY_ASSIGN(options.windows, windowsOf(values, options.length));
  COLLA_TRY_ASSIGN(options.filters, wholeNumber(values, "filters", 1));
  COLLA_TRY_ASSIGN(options.hidden, wholeNumber(values, "hidden", 1));
  COLLA_TRY_ASSIGN(options.keep, realNumber(values, "keep-prob", 0.01, 1));
  COLLA_TRY_ASSIGN(options.norm, oneOf<bool>(values, "norm", {{"batch", true}, {"none", false}}));
  options.classes = data.classes;
  return MakeModel([options] { return std::make_unique<DeepFam>(options); });
}

}  // namespace colla::models
