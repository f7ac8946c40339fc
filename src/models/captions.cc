// `im2txt`: Show and Tell (Vinyals and others, 2015). Inception-v3 sees an image; an LSTM that was
// shown its embedding first says a caption, word by word.
#include <cmath>

#include "models/beam_search.h"
#include "models/inception_v3.h"
#include "models/makers.h"
#include "models/predicts.h"

namespace colla::models {
namespace {

// As published: all weights but Inception's begin uniform within this.
constexpr double kBound = 0.08;

struct CaptionsSizes {
  ImageOptions images;
  bool trainInception = false;
  std::int64_t words = 0;
  std::int64_t units = 0;
  std::int64_t embedding = 0;
  double dropout = 0;
  BeamOptions beam;
  std::vector<std::string> vocabulary;  // Empty: captions are told in numbers.
};

struct CaptionsImpl : torch::nn::Module {
  explicit CaptionsImpl(const CaptionsSizes& sizes)
      : trainInception(sizes.trainInception),
        inception(register_module("inception", makeInceptionNet(sizes.images))),
        imageEmbedding(register_module(
            "image_embedding",
            torch::nn::Linear(
                torch::nn::LinearOptions(kInceptionWidth, sizes.embedding).bias(false)))),
        embedding(register_module(
            "embedding",
            torch::nn::Embedding(
                torch::nn::EmbeddingOptions(sizes.words, sizes.embedding).sparse(true)))),
        lstm(register_module("lstm", Lstm(sizes.embedding, sizes.units, 0, kBound))),
        dropout(register_module("dropout", torch::nn::Dropout(sizes.dropout))),
        softmax(register_module("softmax", torch::nn::Linear(sizes.units, sizes.words))) {
    const torch::NoGradGuard noGrad;
    imageEmbedding->weight.uniform_(-kBound, kBound);
    embedding->weight.uniform_(-kBound, kBound);
    softmax->weight.uniform_(-kBound, kBound);
    softmax->bias.zero_();
    if (trainInception) return;
    for (const torch::Tensor& parameter : inception->parameters()) {
      parameter.set_requires_grad(false);
    }
  }

  // The LSTM's state when it has been shown the images.
  LstmImpl::State look(const torch::Tensor& images) {
    if (!trainInception && inception->is_training()) inception->eval();
    const torch::Tensor seen = imageEmbedding->forward(inception->forward(images));
    return lstm->step(lstm->gates(dropout->forward(seen)), lstm->begin(images.size(0)));
  }

  // Logits of the word after each of `words` (samples x length): length x samples x words.
  torch::Tensor say(const torch::Tensor& words, LstmImpl::State state) {
    const torch::Tensor input = dropout->forward(embedding->forward(words.t()));
    return softmax->forward(dropout->forward(lstm->forward(input, state)));
  }

  // One word for each state, in a search.
  torch::Tensor sayNext(LstmImpl::State& state, const torch::Tensor& words) {
    state = lstm->step(lstm->gates(embedding->forward(words)), state);
    return torch::log_softmax(softmax->forward(state.h), 1);
  }

  const bool trainInception;
  std::shared_ptr<ImageNet> inception;
  torch::nn::Linear imageEmbedding;
  torch::nn::Embedding embedding;
  Lstm lstm;
  torch::nn::Dropout dropout;
  torch::nn::Linear softmax;
};

class Captions final : public Model, public Predicts {
 public:
  explicit Captions(const CaptionsSizes& sizes) : sizes_(sizes), net_(sizes) {}
  torch::nn::Module& module() override { return net_; }
  std::vector<std::string> rowSparse() const override { return {"embedding.weight"}; }

  // Means over captions: what the words of one cost together, and how many they are.
  std::vector<std::string> metrics() const override { return {"perplexity", "words"}; }
  std::vector<double> shown(std::vector<double> means) const override {
    return {std::exp(means.at(0) / std::max(means.at(1), 1e-9)), means.at(1)};
  }

  // A caption counts as one sample, whatever its length: its loss is the mean over its words, and
  // the batch's the mean over captions. (As published it is the mean over the words of a batch,
  // where a long caption counts more; that would depend on the cut into slices.)
  Output compute(const std::vector<torch::Tensor>& batch) override {
    const auto [costs, words] = costsOf(batch);
    return {(costs / words).mean(),
            {costs.detach().mean().item<double>(), words.mean().item<double>()}};
  }

  std::vector<Column> predict(const std::vector<torch::Tensor>& batch) override {
    const LstmImpl::State seen = net_.look(batch.at(0));
    std::vector<std::string> texts;
    torch::Tensor logs = torch::empty({batch.at(0).size(0)}, torch::kFloat64);
    for (std::int64_t i = 0; i < batch.at(0).size(0); ++i) {
      const Sentence sentence = beamSearch(
          {seen.h.narrow(0, i, 1), seen.c.narrow(0, i, 1)},
          [this](LstmImpl::State& state, const torch::Tensor& words) {
            return net_.sayNext(state, words);
          },
          sizes_.beam);
      texts.push_back(textOf(sentence.words));
      logs[i] = sentence.logProbability;
    }
    return {{"caption", std::move(texts)}, {"log_probability", logs}};
  }

 private:
  // Of each caption, over its words but the first: the sum of their losses, and their number.
  std::pair<torch::Tensor, torch::Tensor> costsOf(const std::vector<torch::Tensor>& batch) {
    const torch::Tensor& caption = batch.at(1);
    const std::int64_t length = caption.size(1) - 1;
    const torch::Tensor logits =
        net_.say(caption.narrow(1, 0, length), net_.look(batch.at(0))).flatten(0, 1);
    const torch::Tensor losses = torch::nn::functional::cross_entropy(
        logits, caption.narrow(1, 1, length).t().flatten(),
        torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
    const torch::Tensor words = (batch.at(2) - 1).clamp(1, length);
    const torch::Tensor real =
        torch::arange(length, torch::kInt64).unsqueeze(1).lt(words.unsqueeze(0));
    return {(losses.view({length, -1}) * real).sum(0), words.to(torch::kFloat32)};
  }

  std::string textOf(const std::vector<std::int64_t>& words) const {
    std::string text;
    for (const std::int64_t word : words) {
      if (!text.empty()) text += ' ';
      const auto place = static_cast<std::size_t>(word);
      text += place < sizes_.vocabulary.size() ? sizes_.vocabulary[place] : std::to_string(word);
    }
    return text;
  }

  const CaptionsSizes sizes_;
  CaptionsImpl net_;
};

}  // namespace

std::vector<Flag> captionFlags() {
  return {{"input", "299x299", "height x width that images are scaled to"},
          kAugment,
          {"train-inception", "false", "true: Inception's weights are trained too"},
          {"inception-weights", "none", "safetensors file with its first weights, or none", false},
          {"units", "512", "of the LSTM"},
          {"embedding", "512", "numbers of a word, and of an image"},
          {"dropout", "0.3", "of what goes into the LSTM and comes out", false},
          {"vocabulary", "", "file that numbers the words, by default the data's own", false},
          {"beam", "3", "captions that a search keeps at each length, in predictions", false},
          {"longest", "20", "words that a caption has at most, in predictions", false}};
}

Result<ReadOptions> captionReads(const Values& values) {
  COLLA_TRY_ASSIGN(ReadOptions options, imageReads(values));
  options.vocabulary = values.find("vocabulary")->second;
  return options;
}

Result<std::string> captionAdvice(const Values& values) {
  if (values.find("train-inception")->second == "true" ||
      values.find("inception-weights")->second != "none") {
    return std::string();
  }
  return std::string(
      "Inception begins with random weights and keeps them: give --inception-weights FILE, or "
      "--train-inception true");
}

Result<MakeModel> makeCaptions(const DataShape& data, const Values& values) {
  if (data.fields.size() != 3 || data.classes < 4 || data.fields[1].type != DataType::kInt64 ||
      data.fields[1].shape.size() != 1 || data.fields[2].type != DataType::kInt64 ||
      !data.fields[2].shape.empty()) {
    return {StatusCode::kInvalidArgument,
            "im2txt learns from images with captions: an image, the numbers of its words, how many "
            "they are"};
  }
  CaptionsSizes sizes;
  COLLA_TRY_ASSIGN(const ReadOptions size, imageReads(values));
  COLLA_TRY(checkImages(data, size, kInceptionLeast));
  sizes.images.channels = data.fields[0].shape[0];
  sizes.images.includeTop = false;
  sizes.images.pooling = Pooling::kAverage;
  COLLA_TRY_ASSIGN(sizes.images.weights, openWeights(values, "inception-weights"));
  COLLA_TRY_ASSIGN(sizes.trainInception,
                   oneOf<bool>(values, "train-inception", {{"true", true}, {"false", false}}));
  sizes.words = data.classes;
  COLLA_TRY_ASSIGN(sizes.units, wholeNumber(values, "units", 1));
  COLLA_TRY_ASSIGN(sizes.embedding, wholeNumber(values, "embedding", 1));
  COLLA_TRY_ASSIGN(sizes.dropout, realNumber(values, "dropout", 0, 0.99));
  COLLA_TRY_ASSIGN(sizes.beam.beam, wholeNumber(values, "beam", 1));
  COLLA_TRY_ASSIGN(sizes.beam.most, wholeNumber(values, "longest", 1));
  sizes.vocabulary = data.words;
  return MakeModel([sizes] { return std::make_unique<Captions>(sizes); });
}

}  // namespace colla::models
