// The parts of the language models: LSTM, candidates, sampled softmax, beam search, and what they
// make together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "colla/error.h"
#include "models/beam_search.h"
#include "models/candidates.h"
#include "models/entries.h"
#include "models/lstm.h"
#include "models/predicts.h"
#include "models/task.h"

namespace colla::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// With and without a projection: what torch::nn::LSTM gives for the same parameters.
TEST(LstmTest, IsTorchs) {
  for (const std::int64_t projection : {0, 3}) {
    torch::manual_seed(1);
    const Lstm lstm(4, 5, projection, 0.5);
    torch::nn::LSTM torchs(torch::nn::LSTMOptions(4, 5).proj_size(projection));
    const torch::NoGradGuard noGrad;
    for (const auto& item : lstm->named_parameters()) {
      torchs->named_parameters()[item.key()].copy_(item.value());
    }
    EXPECT_EQ(lstm->parameters().size(), torchs->parameters().size());
    const torch::Tensor input = torch::randn({7, 2, 4});
    LstmImpl::State state = lstm->begin(2);
    const torch::Tensor output = lstm->forward(input, state);
    const auto [wanted, last] = torchs->forward(input);
    EXPECT_TRUE(torch::allclose(output, wanted, 1e-5, 1e-6));
    EXPECT_TRUE(torch::allclose(state.h, std::get<0>(last)[0], 1e-5, 1e-6));
    EXPECT_TRUE(torch::allclose(state.c, std::get<1>(last)[0], 1e-5, 1e-6));
  }
}

TEST(CandidatesTest, AreDifferentAndAsFrequentAsExpected) {
  torch::manual_seed(7);
  constexpr std::int64_t kClasses = 100;
  constexpr int kRounds = 4000;
  std::vector<double> seen(kClasses);
  torch::Tensor expected = torch::zeros({kClasses}, torch::kFloat64);
  for (int round = 0; round < kRounds; ++round) {
    const Candidates drawn = drawCandidates(kClasses, 10);
    const std::set<std::int64_t> all(drawn.classes.begin(), drawn.classes.end());
    ASSERT_EQ(drawn.classes.size(), 10);
    ASSERT_EQ(all.size(), 10);
    ASSERT_GE(*all.begin(), 0);
    ASSERT_LT(*all.rbegin(), kClasses);
    ASSERT_GE(drawn.draws, 10);
    for (const std::int64_t k : all) ++seen[static_cast<std::size_t>(k)];
    expected += logExpected(torch::arange(kClasses), kClasses, drawn.draws).exp();
  }
  for (std::int64_t k = 0; k < kClasses; ++k) {
    const double share = seen[static_cast<std::size_t>(k)] / kRounds;
    const double wanted = expected[k].item<double>() / kRounds;
    // The number of draws depends on what was drawn: the formula, TensorFlow's, is a little off.
    EXPECT_NEAR(share, wanted, 0.1 * wanted + 4 * std::sqrt(wanted / kRounds)) << k;
  }
}

// The first classes' probabilities, by the definition.
TEST(CandidatesTest, LogExpectedIsTheFormulas) {
  const torch::Tensor one = logExpected(torch::tensor({0, 1}, torch::kInt64), 9, 1).exp();
  EXPECT_NEAR(one[0].item<double>(), std::log(2.0) / std::log(10.0), 1e-6);
  EXPECT_NEAR(one[1].item<double>(), std::log(1.5) / std::log(10.0), 1e-6);
  const double p = std::log(2.0) / std::log(10.0);
  const torch::Tensor five = logExpected(torch::tensor({0}, torch::kInt64), 9, 5).exp();
  EXPECT_NEAR(five[0].item<double>(), 1 - std::pow(1 - p, 5), 1e-6);
}

struct Softmax {
  Softmax() {
    torch::manual_seed(2);
    state = torch::randn({6, 8}).set_requires_grad(true);
    weight = torch::randn({50, 8}).set_requires_grad(true);
    bias = torch::randn({50}).set_requires_grad(true);
    targets = torch::tensor({3, 0, 49, 3, 7, 1}, torch::kInt64);
  }
  torch::Tensor losses() const {
    return torch::nn::functional::cross_entropy(
        torch::linear(state, weight, bias), targets,
        torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
  }
  torch::Tensor state;
  torch::Tensor weight;
  torch::Tensor bias;
  torch::Tensor targets;
};

TEST(SampledSoftmaxTest, WithAllClassesIsTheWholeSoftmax) {
  const Softmax sampled;
  const torch::Tensor losses =
      sampledLosses(sampled.state, sampled.targets, sampled.weight, sampled.bias, 50);
  const Softmax whole;
  EXPECT_TRUE(torch::allclose(losses, whole.losses(), 1e-4, 1e-5));
  losses.mean().backward();
  whole.losses().mean().backward();
  ASSERT_TRUE(sampled.weight.grad().is_sparse());
  ASSERT_TRUE(sampled.bias.grad().is_sparse());
  EXPECT_TRUE(torch::allclose(sampled.state.grad(), whole.state.grad(), 1e-4, 1e-5));
  EXPECT_TRUE(torch::allclose(sampled.weight.grad().to_dense(), whole.weight.grad(), 1e-4, 1e-5));
  EXPECT_TRUE(torch::allclose(sampled.bias.grad().to_dense(), whole.bias.grad(), 1e-4, 1e-5));
}

// The definition, in double: own logit against the candidates', each less the logarithm of how
// often it is expected, without candidates that are the target.
TEST(SampledSoftmaxTest, IsTensorFlows) {
  const Softmax softmax;
  const torch::NoGradGuard noGrad;
  torch::manual_seed(9);
  const Candidates drawn = drawCandidates(50, 25);
  torch::manual_seed(9);  // The same ones.
  const torch::Tensor losses =
      sampledLosses(softmax.state, softmax.targets, softmax.weight, softmax.bias, 25);
  const torch::Tensor logits =
      torch::linear(softmax.state, softmax.weight, softmax.bias).to(torch::kFloat64);
  const auto corrected = [&](std::int64_t row, std::int64_t k) {
    const double p = std::log((k + 2.0) / (k + 1.0)) / std::log(51.0);
    const double expected = 1 - std::pow(1 - p, static_cast<double>(drawn.draws));
    return logits[row][k].item<double>() - std::log(expected);
  };
  int hits = 0;
  for (std::int64_t row = 0; row < 6; ++row) {
    const auto target = softmax.targets[row].item<std::int64_t>();
    const double own = corrected(row, target);
    double sum = std::exp(own);
    for (const std::int64_t k : drawn.classes) {
      hits += k == target ? 1 : 0;
      if (k != target) sum += std::exp(corrected(row, k));
    }
    EXPECT_NEAR(losses[row].item<double>(), std::log(sum) - own, 1e-4) << row;
  }
  EXPECT_GT(hits, 0);  // Or leaving them out was not tested.
}

TEST(SampledSoftmaxTest, FullLossesInPiecesAreTheWholeSoftmax) {
  torch::manual_seed(4);
  const torch::NoGradGuard noGrad;
  const torch::Tensor state = torch::randn({100, 4});
  const torch::Tensor weight = torch::randn({100'000, 4});  // 41 rows at a time.
  const torch::Tensor bias = torch::randn({100'000});
  const torch::Tensor targets = torch::randint(0, 100'000, {100}, torch::kInt64);
  const torch::Tensor wanted = torch::linear(state, weight, bias).logsumexp(1) -
                               (state * weight.index_select(0, targets)).sum(1) -
                               bias.index_select(0, targets);
  EXPECT_TRUE(torch::allclose(fullLosses(state, targets, weight, bias), wanted, 1e-4, 1e-4));
}

// Words that a table says: the likeliest first word is a trap, after which nothing is likely.
TEST(BeamSearchTest, FindsWhatGreedySearchMisses) {
  const auto step = [](LstmImpl::State& /*state*/, const torch::Tensor& words) {
    // From each word: start 0, <s> 1, </s> 2, then 3, 4, 5.
    const torch::Tensor table = torch::tensor({{0.01, 0.01, 0.01, 0.01, 0.01, 0.95},
                                               {0.01, 0.01, 0.01, 0.50, 0.46, 0.01},
                                               {0.01, 0.01, 0.94, 0.01, 0.01, 0.02},
                                               {0.18, 0.16, 0.17, 0.17, 0.16, 0.16},
                                               {0.01, 0.01, 0.05, 0.01, 0.01, 0.91},
                                               {0.01, 0.01, 0.90, 0.01, 0.01, 0.06}});
    return table.index_select(0, words).log();
  };
  const LstmImpl::State state{torch::zeros({1, 2}), torch::zeros({1, 2})};
  const Sentence wide = beamSearch(state, step, {.beam = 3});
  EXPECT_THAT(wide.words, ElementsAre(4, 5));
  EXPECT_NEAR(wide.logProbability, std::log(0.46 * 0.91 * 0.90), 1e-6);
  const Sentence greedy = beamSearch(state, step, {.beam = 1, .most = 3});
  EXPECT_THAT(greedy.words, ElementsAre(3, 0, 5));
}

const DataShape kText = {
    {{"words", DataType::kInt64, {5}}, {"next", DataType::kInt64, {5}}}, 300, 300};

TEST(LanguageTest, SizesAndNames) {
  const auto model = valueOrThrow(tryMake(
      "lm", kText, {{"embedding", "6"}, {"units", "8"}, {"projection", "4"}, {"vocab", "500"}}))();
  const auto parameters = model->module().named_parameters();
  EXPECT_THAT(
      parameters.keys(),
      ElementsAre("embedding.weight", "lstm.weight_ih_l0", "lstm.weight_hh_l0", "lstm.bias_ih_l0",
                  "lstm.bias_hh_l0", "lstm.weight_hr_l0", "softmax.weight", "softmax.bias"));
  EXPECT_THAT(parameters["embedding.weight"].sizes(), ElementsAre(500, 6));
  EXPECT_THAT(parameters["lstm.weight_hh_l0"].sizes(), ElementsAre(32, 4));
  EXPECT_THAT(parameters["softmax.weight"].sizes(), ElementsAre(500, 4));
}

// The published model has a vocabulary of 793,470 words and 822,760,318 parameters: too many for a
// test, so once with all the words and once with all the other sizes.
TEST(LanguageTest, PublishedSize) {
  const auto count = [](const Values& values) {
    return countParameters(valueOrThrow(tryMake("lm", kText, values)));
  };
  constexpr std::int64_t kWords = 793'470;
  // Without words: LSTM-2048-512.
  constexpr std::int64_t kLstm = 4 * 2048 * (512 + 512 + 2) + 512 * 2048;
  EXPECT_EQ(kWords * (512 + 512 + 1) + kLstm, 822'760'318);
  const Values published = {
      {"embedding", "512"}, {"units", "2048"}, {"projection", "512"}, {"candidates", "8192"}};
  EXPECT_EQ(count(published), 300 * (512 + 512 + 1) + kLstm);
  const Values words = {
      {"vocab", "793470"}, {"embedding", "1"}, {"units", "1"}, {"projection", "1"}};
  const auto model = valueOrThrow(tryMake("lm", kText, words))();
  const auto parameters = model->module().named_parameters();
  EXPECT_THAT(parameters["embedding.weight"].sizes(), ElementsAre(kWords, 1));
  EXPECT_THAT(parameters["softmax.weight"].sizes(), ElementsAre(kWords, 1));
  EXPECT_THAT(parameters["softmax.bias"].sizes(), ElementsAre(kWords));
}

// An evaluation takes the whole softmax: untrained, a perplexity of about the number of words.
TEST(LanguageTest, PerplexityIsThatOfAllWords) {
  torch::manual_seed(1);
  const auto model = valueOrThrow(tryMake("lm", kText, {{"candidates", "20"}}))();
  const torch::Tensor words = torch::randint(0, 300, {7, 5}, torch::kInt64);
  const torch::Tensor next = torch::randint(0, 300, {7, 5}, torch::kInt64);
  const torch::NoGradGuard noGrad;
  model->module().eval();
  const Output output = model->compute({words, next});
  EXPECT_THAT(model->metrics(), ElementsAre("perplexity"));
  const double perplexity = model->shown(output.metrics).at(0);
  EXPECT_NEAR(perplexity, 300, 30);
  EXPECT_NEAR(perplexity, std::exp(output.loss.item<double>()), 1e-6 * perplexity);

  // By sample: their mean is the loss.
  const auto columns = dynamic_cast<Predicts&>(*model).predict({words, next});
  const torch::Tensor losses = std::get<torch::Tensor>(columns.at(0).values);
  EXPECT_THAT(losses.sizes(), ElementsAre(7));
  EXPECT_NEAR(losses.mean().item<double>(), output.loss.item<double>(), 1e-4);
}

// Of 200 words: far better than guessing, which gives 200.
TEST(LanguageTest, Learns) {
  const Entry& entry = *valueOrThrow(findModel("lm"));
  Values values = defaults(entry.flags);
  for (const auto& [flag, value] :
       Values{{"embedding", "32"}, {"units", "64"}, {"projection", "32"}, {"candidates", "50"}}) {
    values[flag] = value;
  }
  Task task = valueOrThrow(makeTask(entry, values, "synthetic:text:20000x200", Part::kTrain));
  EXPECT_EQ(task.clipNorm, 10);
  task.optimizer = Adam{.lr = 5e-3};
  TrainOptions options;
  options.epochs = 3;
  options.batch = 50;
  options.quiet = true;
  options.threads = 1;
  const auto summary = Trainer(std::move(task)).run(options);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_LT(summary->test->metrics.at(0), 80);
  EXPECT_NEAR(std::log(summary->test->metrics.at(0)), summary->test->loss, 1e-6);
}

TEST(LanguageTest, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal("lm", kText, {{"vocab", "299"}}), HasSubstr("the data has 300 words"));
  EXPECT_THAT(refusal("lm", kText, {{"dropout", "1"}}), HasSubstr("--dropout is"));
  EXPECT_THAT(refusal("lm", kText, {{"units", "0"}}), HasSubstr("--units is"));
  DataShape images = kText;
  images.fields[0] = {"image", DataType::kFloat32, {3, 32, 32}};
  EXPECT_THAT(refusal("lm", images, {}), HasSubstr("lm learns from text"));
}

// Show and Tell as it was published.
TEST(CaptionsTest, IsTrainedAsPublished) {
  const Entry& entry = entryOf("im2txt");
  EXPECT_EQ(entry.optimizer, OptimizerOptions(Sgd{.lr = 2.0}));
  // Half after every eight epochs of 586,363 captions in batches of 32.
  EXPECT_EQ(entry.schedule, (Schedule{.shape = StepRate{.every = 146'590, .factor = 0.5}}));
  EXPECT_EQ(entry.clipNorm, 5);
  EXPECT_EQ(entry.batch, 32);
  const Values values = defaults(entry.flags);
  EXPECT_EQ(values.at("units"), "512");
  EXPECT_EQ(values.at("embedding"), "512");
  EXPECT_EQ(values.at("dropout"), "0.3");
  EXPECT_EQ(values.at("input"), "299x299");
  EXPECT_EQ(values.at("train-inception"), "false");
}

// A model whose words have known probabilities, whatever it sees: the perplexity is the inverse of
// their geometric mean over all words but <s>, of long and short captions alike.
TEST(CaptionsTest, PerplexityIsOverWords) {
  const DataShape data = {{{"image", DataType::kFloat32, {3, 75, 75}},
                           {"caption", DataType::kInt64, {-1}},
                           {"length", DataType::kInt64, {}}},
                          6};
  torch::manual_seed(1);
  const auto model = valueOrThrow(
      tryMake("im2txt", data, {{"input", "75x75"}, {"units", "4"}, {"embedding", "3"}}))();
  const std::vector<double> chances = {0.05, 0.05, 0.4, 0.1, 0.15, 0.25};
  const torch::NoGradGuard noGrad;
  const auto parameters = model->module().named_parameters();
  parameters["softmax.weight"].zero_();
  parameters["softmax.bias"].copy_(torch::tensor(chances).log());
  model->module().eval();
  // "4 5" and "5", with <s> and </s>.
  const torch::Tensor captions = torch::tensor({{1, 4, 5, 2}, {1, 5, 2, 0}}, torch::kInt64);
  const torch::Tensor lengths = torch::tensor({4, 3}, torch::kInt64);
  const Output output = model->compute({torch::rand({2, 3, 75, 75}), captions, lengths});
  EXPECT_THAT(model->metrics(), ElementsAre("perplexity", "words"));
  const double first = std::log(0.15) + std::log(0.25) + std::log(0.4);
  const double second = std::log(0.25) + std::log(0.4);
  const auto shown = model->shown(output.metrics);
  EXPECT_NEAR(shown.at(0), std::exp(-(first + second) / 5), 1e-4);
  EXPECT_NEAR(shown.at(1), 2.5, 1e-6);
  EXPECT_NEAR(output.loss.item<double>(), -(first / 3 + second / 2) / 2, 1e-5);
}

}  // namespace
}  // namespace colla::models
