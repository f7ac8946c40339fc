// `lm`: a language model with a large vocabulary, as in "Exploring the Limits of Language Modeling"
// (Jozefowicz and others, 2016), in its size LSTM-2048-512: embedding, LSTM with projection,
// sampled softmax.
#include <fmt/format.h>

#include <cmath>

#include "models/candidates.h"
#include "models/lstm.h"
#include "models/makers.h"
#include "models/predicts.h"

namespace colla::models {
namespace {

struct LanguageSizes {
  std::int64_t words;
  std::int64_t embedding;
  std::int64_t units;
  std::int64_t projection;
  std::int64_t candidates;
  double dropout;
};

struct LanguageImpl : torch::nn::Module {
  explicit LanguageImpl(const LanguageSizes& sizes)
      : embedding(register_module(
            "embedding",
            torch::nn::Embedding(
                torch::nn::EmbeddingOptions(sizes.words, sizes.embedding).sparse(true)))),
        lstm(register_module("lstm", Lstm(sizes.embedding, sizes.units, sizes.projection,
                                          1 / std::sqrt(static_cast<double>(sizes.units))))),
        dropout(register_module("dropout", torch::nn::Dropout(sizes.dropout))),
        softmax(register_module("softmax", torch::nn::Linear(sizes.projection, sizes.words))) {
    // The default, normal with deviation 1, is far too large for this.
    const torch::NoGradGuard noGrad;
    embedding->weight.uniform_(-1 / std::sqrt(static_cast<double>(sizes.embedding)),
                               1 / std::sqrt(static_cast<double>(sizes.embedding)));
    softmax->bias.zero_();
  }

  // The state behind every word: length x samples, one row each.
  torch::Tensor states(const torch::Tensor& words) {
    LstmImpl::State state = lstm->begin(words.size(0));
    const torch::Tensor input = dropout->forward(embedding->forward(words.t()));
    return dropout->forward(lstm->forward(input, state)).flatten(0, 1);
  }

  torch::nn::Embedding embedding;
  Lstm lstm;
  torch::nn::Dropout dropout;
  torch::nn::Linear softmax;
};

class Language final : public Model, public Predicts {
 public:
  explicit Language(const LanguageSizes& sizes) : sizes_(sizes), net_(sizes) {}
  torch::nn::Module& module() override { return net_; }
  std::vector<std::string> metrics() const override { return {"perplexity"}; }
  std::vector<double> shown(std::vector<double> means) const override {
    return {std::exp(means.at(0))};
  }
  std::vector<std::string> rowSparse() const override {
    return {"embedding.weight", "softmax.weight", "softmax.bias"};
  }

  // All samples have the same number of words, so the mean over words is one over samples. In
  // training the loss, and the perplexity with it, is that of the sampled softmax.
  Output compute(const std::vector<torch::Tensor>& batch) override {
    const torch::Tensor loss = losses(batch, net_.is_training()).mean();
    return {loss, {loss.item<double>()}};
  }

  std::vector<Column> predict(const std::vector<torch::Tensor>& batch) override {
    const std::int64_t samples = batch.at(0).size(0);
    const torch::Tensor mean = losses(batch, false).view({-1, samples}).mean(0);
    return {{"loss", mean}, {"perplexity", mean.exp()}};
  }

 private:
  // Length x samples, in one dimension.
  torch::Tensor losses(const std::vector<torch::Tensor>& batch, bool sampled) {
    const torch::Tensor states = net_.states(batch.at(0));
    const torch::Tensor next = batch.at(1).t().flatten();
    const auto& softmax = net_.softmax;
    return sampled ? sampledLosses(states, next, softmax->weight, softmax->bias, sizes_.candidates)
                   : fullLosses(states, next, softmax->weight, softmax->bias);
  }

  const LanguageSizes sizes_;
  LanguageImpl net_;
};

}  // namespace

std::vector<Flag> languageFlags() {
  return {{"vocab", "data", "words that the model knows; data: as many as the data has"},
          {"length", "20", "words of a sample", false},
          {"vocabulary", "", "file that numbers the words, by default the data's own", false},
          {"embedding", "128", "numbers of a word (published: 512)"},
          {"units", "256", "of the LSTM (published: 2048)"},
          {"projection", "128", "numbers that the LSTM gives (published: 512)"},
          {"candidates", "512", "of the sampled softmax (published: 8192)", false},
          {"dropout", "0.1", "of what goes into the LSTM and comes out", false}};
}

Result<ReadOptions> languageReads(const Values& values) {
  ReadOptions options;
  COLLA_TRY_ASSIGN(options.length, wholeNumber(values, "length", 1));
  options.vocabulary = values.find("vocabulary")->second;
  return options;
}

Result<MakeModel> makeLanguage(const DataShape& data, const Values& values) {
  if (data.fields.size() != 2 || data.symbols < 2 || data.fields[0].type != DataType::kInt64 ||
      data.fields[1].type != DataType::kInt64 || data.fields[0].shape.size() != 1 ||
      data.fields[0].shape != data.fields[1].shape || data.fields[0].shape[0] < 1) {
    return {StatusCode::kInvalidArgument,
            "lm learns from text: words and, of the same length, the words that follow"};
  }
  LanguageSizes sizes{};
  sizes.words = data.symbols;
  if (values.find("vocab")->second != "data") {
    COLLA_TRY_ASSIGN(sizes.words, wholeNumber(values, "vocab", 2));
  }
  if (sizes.words < data.symbols) {
    return {StatusCode::kInvalidArgument,
            fmt::format("--vocab is {}, but the data has {} words", sizes.words, data.symbols)};
  }
  COLLA_TRY_ASSIGN(sizes.embedding, wholeNumber(values, "embedding", 1));
  COLLA_TRY_ASSIGN(sizes.units, wholeNumber(values, "units", 1));
  COLLA_TRY_ASSIGN(sizes.projection, wholeNumber(values, "projection", 1));
  COLLA_TRY_ASSIGN(sizes.candidates, wholeNumber(values, "candidates", 1));
  COLLA_TRY_ASSIGN(sizes.dropout, realNumber(values, "dropout", 0, 0.99));
  return MakeModel([sizes] { return std::make_unique<Language>(sizes); });
}

}  // namespace colla::models
