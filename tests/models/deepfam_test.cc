// DeepFam: its fused convolutions against libtorch's own operators in double, and the model around
// them.
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "colla/error.h"
#include "models/fused_convolution.h"
#include "models/shift_norm.h"
#include "models/task.h"

namespace colla::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using torch::Tensor;

const Entry& deepfam() { return *valueOrThrow(findModel("deepfam")); }

Values small(const std::string& norm) {
  return {{"windows", "3,8,12"}, {"filters", "10"}, {"hidden", "20"},
          {"keep-prob", "1"},    {"length", "70"},  {"norm", norm}};
}

DataShape proteins(std::int64_t length, std::int64_t classes) {
  return {{{"sequence", DataType::kUInt8, {length}}, {"label", DataType::kInt64, {}}}, classes, 25};
}

// All letters, with tails of padding; one sequence is nothing else.
Tensor randomSequences(std::int64_t samples, std::int64_t length) {
  Tensor letters = torch::randint(1, 25, {samples, length}, torch::kUInt8);
  for (std::int64_t i = 1; i < samples; ++i) {
    letters[i].slice(0, i == 1 ? 0 : length * i / (2 * samples)).zero_();
  }
  letters[0][4] = 0;
  return letters;
}

// Class vectors, samples x 21 x length, in double.
Tensor classVectors(const Tensor& letters) {
  Tensor table = torch::zeros({25, 21}, torch::kFloat64);
  for (int i = 0; i < 20; ++i) table[i + 1][i] = 1;
  const std::string classes = "ACDEFGHIKLMNPQRSTVWYX";
  const auto place = [&](char name) { return static_cast<std::int64_t>(classes.find(name)); };
  table[21][place('D')] = table[21][place('N')] = 0.5;
  table[22][place('E')] = table[22][place('Q')] = 0.5;
  table[23][place('I')] = table[23][place('L')] = 0.5;
  table[24][place('X')] = 1;
  return table.index_select(0, letters.flatten().to(torch::kInt64))
      .view({letters.size(0), letters.size(1), 21})
      .transpose(1, 2);
}

Tensor normalised(const Tensor& values, const Tensor& bias) {
  return torch::batch_norm(values, {}, bias, {}, {}, true, 0, 1e-3, false);
}

// Convolution, normalisation, ReLU and maximum in this order, as they were published.
Tensor publishedFeatures(const Tensor& vectors, const Tensor& weight, const Tensor& bias,
                         bool norm) {
  const Tensor values = torch::conv1d(vectors, weight, norm ? Tensor() : bias);
  return std::get<0>(torch::relu(norm ? normalised(values, bias) : values).max(2));
}

class DeepFamTest : public ::testing::TestWithParam<const char*> {
 protected:
  bool norm() const { return std::string(GetParam()) == "batch"; }
};
INSTANTIATE_TEST_SUITE_P(Norm, DeepFamTest, ::testing::Values("batch", "none"));

TEST_P(DeepFamTest, GradientsAreThoseOfAutogradInDouble) {
  torch::manual_seed(4);
  for (const std::int64_t window : {1, 5, 8, 17, 36}) {
    const Tensor letters = randomSequences(6, 90);
    const auto options = torch::TensorOptions(torch::kFloat64).requires_grad(true);
    // The weights have a mean, too: the normalisation takes it away.
    const Tensor weight = (torch::randn({19, 21, window}, torch::kFloat64) + 0.3).requires_grad_();
    const Tensor bias = torch::randn({19}, options);
    const Tensor pull = torch::randn({6, 19}, torch::kFloat64);

    const auto batch = c10::make_intrusive<LetterBatch>(letters, 36);
    const Tensor fused = torch::relu((norm() ? normalisedMaxConvolution(batch, weight, 1e-3).value
                                             : maxConvolution(batch, weight)) +
                                     bias);
    const Tensor right = publishedFeatures(classVectors(letters), weight, bias, norm());
    EXPECT_TRUE(torch::allclose(fused, right, 1e-10, 1e-10)) << window;

    const auto found = torch::autograd::grad({(fused * pull).sum()}, {weight, bias});
    const auto wanted = torch::autograd::grad({(right * pull).sum()}, {weight, bias});
    EXPECT_GT(wanted[0].abs().max().item<double>(), 0.1);
    EXPECT_TRUE(torch::allclose(found[0], wanted[0], 1e-9, 1e-9)) << window;
    EXPECT_TRUE(torch::allclose(found[1], wanted[1], 1e-9, 1e-9)) << window;
  }
}

// What float32 loses stays small, with statistics over many positions.
TEST_P(DeepFamTest, FloatIsCloseToDouble) {
  torch::manual_seed(5);
  const Tensor letters = torch::randint(1, 25, {8, 500}, torch::kUInt8);
  const Tensor weight = torch::randn({16, 21, 20}).mul_(0.1).add_(0.2).requires_grad_();
  const Tensor pull = torch::randn({8, 16});
  const auto run = [&](const Tensor& w) {
    const auto batch = c10::make_intrusive<LetterBatch>(letters, 20);
    const Tensor value =
        norm() ? normalisedMaxConvolution(batch, w, 1e-3).value : maxConvolution(batch, w);
    return std::pair(value, torch::autograd::grad({(value * pull.to(w.dtype())).sum()}, {w})[0]);
  };
  const auto [value, gradient] = run(weight);
  const auto [right, wanted] = run(weight.detach().to(torch::kFloat64).requires_grad_());
  EXPECT_LT((value - right).abs().max().item<double>(), 1e-4);
  EXPECT_LT((gradient - wanted).abs().max().item<double>(), 1e-4);
}

TEST(DeepFamModelTest, ThreadsChangeNoBitOfTheConvolution) {
  torch::manual_seed(6);
  const Tensor letters = randomSequences(5, 120);
  const Tensor weight = torch::randn({40, 21, 12}).requires_grad_();
  const auto run = [&] {
    const auto batch = c10::make_intrusive<LetterBatch>(letters, 12);
    const Tensor value = maxConvolution(batch, weight);
    return std::pair(value, torch::autograd::grad({value.square().sum()}, {weight})[0]);
  };
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto [value, gradient] = run();
  at::set_num_threads(3);
  const auto [value3, gradient3] = run();
  at::set_num_threads(before);
  EXPECT_TRUE(torch::equal(value, value3));
  EXPECT_TRUE(torch::equal(gradient, gradient3));
}

TEST(DeepFamModelTest, AutocastLeavesTheStatisticsAlone) {
  torch::manual_seed(3);
  const auto batch = c10::make_intrusive<LetterBatch>(randomSequences(5, 120), 12);
  const Tensor weight = torch::randn({40, 21, 12});
  const Tensor value = normalisedMaxConvolution(batch, weight, 1e-3).value;
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const Tensor under = normalisedMaxConvolution(batch, weight, 1e-3).value;
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_TRUE(torch::equal(under, value));
}

// The whole model, in double, from its parameters by their names.
TEST_P(DeepFamTest, LossIsThatOfThePublishedModel) {
  torch::manual_seed(7);
  const auto model = valueOrThrow(deepfam().make(proteins(70, 5), small(GetParam())))();
  const Tensor letters = randomSequences(9, 70);
  const Tensor label = torch::randint(0, 5, {9}, torch::kInt64);
  model->module().train();
  const Output output = model->compute({letters, label});
  output.loss.backward();

  torch::OrderedDict<std::string, Tensor> wide;
  for (const auto& item : model->module().named_parameters()) {
    wide.insert(item.key(), item.value().detach().to(torch::kFloat64).requires_grad_());
  }
  const Tensor vectors = classVectors(letters);
  std::vector<Tensor> features;
  for (const std::string name : {"conv3", "conv8", "conv12"}) {
    features.push_back(publishedFeatures(vectors, wide[name + ".weight"],
                                         wide[name + (norm() ? "_norm.bias" : ".bias")], norm()));
  }
  const Tensor hidden = torch::relu(
      normalised(torch::cat(features, 1).matmul(wide["fc1.weight"].t()), wide["fc1_norm.bias"]));
  const Tensor logits = hidden.matmul(wide["fc2.weight"].t()) + wide["fc2.bias"];
  const Tensor loss = torch::nn::functional::cross_entropy(logits, label) +
                      0.001 * wide["fc2.weight"].square().sum() / 2;
  loss.backward();
  EXPECT_NEAR(output.loss.item<double>(), loss.item<double>(), 1e-5);
  for (const auto& item : model->module().named_parameters()) {
    const Tensor wanted = wide[item.key()].grad();
    EXPECT_LT((item.value().grad() - wanted).abs().max().item<double>(),
              1e-4 * std::max(1.0, wanted.abs().max().item<double>()))
        << item.key();
  }
  EXPECT_DOUBLE_EQ(output.metrics.at(0),
                   logits.argmax(1).eq(label).to(torch::kFloat64).mean().item<double>());
}

// A small one, in seconds; chance would be a 48th.
TEST_P(DeepFamTest, Learns) {
  Values values = defaults(deepfam().flags);
  values["windows"] = "8,12";
  values["filters"] = "128";
  values["hidden"] = "100";
  values["norm"] = GetParam();
  Task task = valueOrThrow(makeTask(deepfam(), values, "synthetic:gpcr:1500", Part::kTrain));
  task.optimizer = Adam{.lr = 3e-3};
  task.batch = 25;
  TrainOptions options;
  options.epochs = 8;
  options.quiet = true;
  options.threads = 1;
  const auto summary = Trainer(std::move(task)).run(options);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_GT(summary->test->metrics.at(0), 0.9);
}

// The statistics that a step keeps are those of libtorch's BatchNorm1d, and an evaluation uses
// them.
TEST(DeepFamNormTest, EvaluatesWithKeptStatistics) {
  torch::manual_seed(8);
  const auto model = valueOrThrow(deepfam().make(proteins(70, 5), small("batch")))();
  const Tensor letters = randomSequences(9, 70);
  const Tensor label = torch::randint(0, 5, {9}, torch::kInt64);
  auto buffers = model->module().named_buffers();
  const auto parameters = model->module().named_parameters();
  model->module().train();
  for (int i = 0; i < 2; ++i) model->compute({letters, label});

  torch::nn::BatchNorm1d norm(torch::nn::BatchNorm1dOptions(10).affine(false));
  const Tensor values =
      torch::conv1d(classVectors(letters), parameters["conv8.weight"].detach().to(torch::kFloat64));
  norm->to(torch::kFloat64);
  for (int i = 0; i < 2; ++i) norm->forward(values);
  EXPECT_TRUE(torch::allclose(buffers["conv8_norm.running_mean"].to(torch::kFloat64),
                              norm->running_mean, 1e-4, 1e-6));
  EXPECT_TRUE(torch::allclose(buffers["conv8_norm.running_var"].to(torch::kFloat64),
                              norm->running_var, 1e-4, 1e-6));

  model->module().eval();
  const torch::NoGradGuard noGrad;
  const double before = model->compute({letters, label}).loss.item<double>();
  EXPECT_EQ(model->compute({letters, label}).loss.item<double>(), before);
  // A sample's result does not depend on the others in its batch.
  double sum = 0;
  for (int i = 0; i < 9; ++i) {
    sum +=
        model->compute({letters.slice(0, i, i + 1), label.slice(0, i, i + 1)}).loss.item<double>();
  }
  EXPECT_NEAR(sum / 9, before, 1e-5);
  buffers["conv8_norm.running_mean"].add_(1);
  EXPECT_NE(model->compute({letters, label}).loss.item<double>(), before);
}

TEST(DeepFamNormTest, BatchOfOneKeepsStatisticsFinite) {
  torch::manual_seed(9);
  const auto model = valueOrThrow(deepfam().make(proteins(70, 5), small("batch")))();
  model->compute({randomSequences(1, 70), torch::zeros({1}, torch::kInt64)}).loss.backward();
  for (const auto& item : model->module().named_buffers()) {
    EXPECT_TRUE(torch::isfinite(item.value()).all().item<bool>()) << item.key();
  }
}

TEST(DeepFamModelTest, SizeAndNames) {
  const std::int64_t convolutions = 256 * 21 * (8 + 12 + 16 + 20 + 24 + 28 + 32 + 36);
  const std::int64_t rest = 8 * 256 + 2048 * 2000 + 2000 + 2000 * 86 + 86;
  Values values = defaults(deepfam().flags);
  for (const char* norm : {"batch", "none"}) {
    values["norm"] = norm;
    EXPECT_EQ(countParameters(valueOrThrow(deepfam().make(proteins(1000, 86), values))),
              convolutions + rest);
  }
  values = small("batch");
  values["windows"] = "5";
  const auto model = valueOrThrow(deepfam().make(proteins(70, 3), values))();
  EXPECT_THAT(model->module().named_parameters().keys(),
              ElementsAre("conv5.weight", "conv5_norm.bias", "fc1.weight", "fc1_norm.bias",
                          "fc2.weight", "fc2.bias"));
  EXPECT_THAT(model->module().named_parameters()["conv5.weight"].sizes(), ElementsAre(10, 21, 5));
  EXPECT_THAT(model->module().named_buffers().keys(),
              ElementsAre("conv5_norm.running_mean", "conv5_norm.running_var",
                          "fc1_norm.running_mean", "fc1_norm.running_var"));
}

// Glorot's, uniform, and biases of 0.1 where no normalisation follows.
TEST(DeepFamModelTest, BeginsAsPublished) {
  torch::manual_seed(2);
  Values values = small("none");
  values["filters"] = "100";
  values["hidden"] = "200";
  const auto model = valueOrThrow(deepfam().make(proteins(70, 50), values))();
  const auto parameters = model->module().named_parameters();
  const auto begins = [&](const std::string& name, double bound) {
    const Tensor& weight = parameters[name];
    EXPECT_LE(weight.abs().max().item<double>(), bound) << name;
    EXPECT_NEAR(weight.std().item<double>(), bound / std::sqrt(3.0), bound * 0.02) << name;
  };
  begins("conv8.weight", std::sqrt(6.0 / (8 * (21 + 100))));
  begins("fc1.weight", std::sqrt(6.0 / (300 + 200)));
  begins("fc2.weight", std::sqrt(6.0 / (200 + 50)));
  for (const char* name : {"conv3.bias", "conv8.bias", "fc2.bias"}) {
    EXPECT_TRUE(torch::equal(parameters[name], torch::full_like(parameters[name], 0.1))) << name;
  }
  EXPECT_EQ(parameters["fc1_norm.bias"].abs().max().item<double>(), 0);
}

TEST(DeepFamModelTest, RefusesWhatDoesNotFit) {
  const auto refusal = [](const DataShape& data, const Values& values) {
    return std::string(deepfam().make(data, values).status().message());
  };
  const auto with = [](const char* flag, const char* value) {
    Values values = small("batch");
    values[flag] = value;
    return values;
  };
  for (const char* wrong : {"", "8,", ",8", "8;12", "8,8", "0", "-3", "71", "x", "8, 12"}) {
    EXPECT_THAT(refusal(proteins(70, 5), with("windows", wrong)), HasSubstr("--windows is"))
        << wrong;
  }
  EXPECT_THAT(refusal(proteins(70, 5), with("norm", "layer")), HasSubstr("batch, none"));
  EXPECT_THAT(refusal(proteins(70, 5), with("keep-prob", "1.1")), HasSubstr("--keep-prob is"));
  EXPECT_THAT(refusal(proteins(70, 5), with("keep-prob", "0")), HasSubstr("--keep-prob is"));
  EXPECT_THAT(refusal(proteins(70, 5), with("length", "60")), HasSubstr("--length"));
  DataShape images = proteins(70, 5);
  images.fields[0].type = DataType::kFloat32;
  EXPECT_THAT(refusal(images, small("batch")), HasSubstr("protein letters"));
  EXPECT_THAT(refusal(proteins(70, 0), small("batch")), HasSubstr("a family"));
  DataShape words = proteins(70, 5);
  words.symbols = 26;
  EXPECT_THAT(refusal(words, small("batch")), HasSubstr("protein letters"));
}

TEST(DeepFamModelTest, WhatIsNoLetterIsAnError) {
  const auto model = valueOrThrow(deepfam().make(proteins(70, 5), small("none")))();
  Tensor letters = randomSequences(2, 70);
  letters[1][3] = 77;
  try {
    model->compute({letters, torch::zeros({2}, torch::kInt64)});
    FAIL() << "77 is no letter";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("77 at place 3 of sample 1"));
  }
}

}  // namespace
}  // namespace colla::models
