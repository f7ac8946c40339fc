// The models of the catalog: their size and names, what they refuse, and that they learn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "colla/error.h"
#include "models/entries.h"
#include "models/task.h"

namespace colla::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const DataShape kImages = {
    {{"image", DataType::kFloat32, {1, 28, 28}}, {"label", DataType::kInt64, {}}}, 10};
const DataShape kRows = {{{"features", DataType::kFloat32, {500}}, {"label", DataType::kInt64, {}}},
                         2};

std::vector<std::string> namesOf(std::string_view model, const DataShape& data) {
  const Entry& entry = entryOf(model);
  return valueOrThrow(entry.make(data, defaults(entry.flags)))()
      ->module()
      .named_parameters()
      .keys();
}

std::int64_t countOf(std::string_view model, const DataShape& data) {
  return countParameters(valueOrThrow(entryOf(model).make(data, defaults(entryOf(model).flags))));
}

TEST(ModelsTest, Parameters) {
  EXPECT_EQ(countOf("lr", kRows), 501);
  EXPECT_EQ(countOf("softmax", kImages), 784 * 10 + 10);
  EXPECT_EQ(countOf("snn", kImages), 784 * 100 + 100 + 100 * 10 + 10);
  EXPECT_EQ(countOf("mlp", kImages), 784 * 100 + 100 + 100 * 100 + 100 + 100 * 10 + 10);
  EXPECT_EQ(countOf("softmax", kRows), 500 * 2 + 2);
}

TEST(ModelsTest, Names) {
  EXPECT_THAT(namesOf("lr", kRows), ElementsAre("linear.weight", "linear.bias"));
  EXPECT_THAT(namesOf("softmax", kImages), ElementsAre("linear.weight", "linear.bias"));
  EXPECT_THAT(namesOf("snn", kImages),
              ElementsAre("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"));
  EXPECT_THAT(namesOf("mlp", kImages), ElementsAre("fc1.weight", "fc1.bias", "fc2.weight",
                                                   "fc2.bias", "fc3.weight", "fc3.bias"));
}

TEST(ModelsTest, FlagsSayTheSize) {
  const Entry& entry = entryOf("mlp");
  const auto model = valueOrThrow(entry.make(kImages, {{"hidden", "7"}}))();
  EXPECT_THAT(model->module().named_parameters()["fc2.weight"].sizes(), ElementsAre(7, 7));
  for (const char* wrong : {"0", "-1", "x", "1.5", "", "99999999999"}) {
    EXPECT_THAT(refusal("mlp", kImages, {{"hidden", wrong}}), HasSubstr("--hidden is")) << wrong;
  }
}

TEST(ModelsTest, RefusesDataThatDoesNotFit) {
  EXPECT_THAT(refusal("lr", kImages, {}), HasSubstr("two classes"));
  DataShape noClass = kImages;
  noClass.classes = 0;
  EXPECT_THAT(refusal("softmax", noClass, {}), HasSubstr("0 classes"));
  DataShape varying = kImages;
  varying.fields[0].shape = {-1};
  EXPECT_THAT(refusal("softmax", varying, {}), HasSubstr("sizes that vary"));
  DataShape integers = kImages;
  integers.fields[0].type = DataType::kInt64;
  EXPECT_THAT(refusal("softmax", integers, {}), HasSubstr("int64"));
  DataShape more = kImages;
  more.fields.push_back(more.fields[0]);
  EXPECT_THAT(refusal("softmax", more, {}), HasSubstr("3 fields"));
}

TEST(ModelsTest, SparseDataIsAdvisedNoOtherModel) {
  DataShape sparse = {{{"feature", DataType::kInt64, {-1}},
                       {"value", DataType::kFloat32, {-1}},
                       {"label", DataType::kInt64, {}}},
                      3,
                      6,
                      {"-1", "1", "7"}};
  EXPECT_EQ(refusal("lr", sparse, {}),
            "lr tells two classes apart, but the data has 3 (-1, 1, 7): no model takes more of "
            "sparse data");
  sparse.classes = 30;
  sparse.words.assign(30, "x");
  EXPECT_THAT(refusal("lr", sparse, {}), HasSubstr(" (x, x, x, x, x, x, x, x, x, x, …)"));
  EXPECT_THAT(refusal("lr", kImages, {}), HasSubstr("the data has 10: use softmax"));
}

TEST(ModelsTest, ImagesAreAugmentedWhereTheFlagSaysSo) {
  for (const char* name : {"resnet50v2", "resnet101v2", "resnet152v2", "inceptionv3", "im2txt"}) {
    Values values = defaults(entryOf(name).flags);
    EXPECT_FALSE(valueOrThrow(readOptions(entryOf(name), values)).augment) << name;
    values["augment"] = "true";
    EXPECT_TRUE(valueOrThrow(readOptions(entryOf(name), values)).augment) << name;
    values["augment"] = std::string("1");
    EXPECT_THAT(readOptions(entryOf(name), values).status().message(),
                HasSubstr("--augment is \"1\", but takes true, false"));
  }
}

// By libtorch's own operators, in double.
TEST(ModelsTest, LogisticRegressionIsRight) {
  const Entry& entry = entryOf("lr");
  torch::manual_seed(5);
  const auto model = valueOrThrow(entry.make(kRows, {}))();
  const torch::Tensor input = torch::randn({40, 500});
  const torch::Tensor label = torch::randint(0, 2, {40}, torch::kInt64);
  const Output output = model->compute({input, label});
  output.loss.backward();

  const auto parameters = model->module().named_parameters();
  const torch::Tensor weight = parameters["linear.weight"].detach().to(torch::kFloat64);
  weight.requires_grad_();
  const torch::Tensor chance =
      torch::sigmoid(input.to(torch::kFloat64).matmul(weight.t()).squeeze(1) +
                     parameters["linear.bias"].item<double>());
  const torch::Tensor wanted = label.to(torch::kFloat64);
  const torch::Tensor loss = torch::binary_cross_entropy(chance, wanted);
  loss.backward();
  EXPECT_NEAR(output.loss.item<double>(), loss.item<double>(), 1e-6);
  EXPECT_TRUE(torch::allclose(parameters["linear.weight"].grad().to(torch::kFloat64), weight.grad(),
                              1e-4, 1e-6));
  EXPECT_DOUBLE_EQ(output.metrics.at(0),
                   (chance > 0.5).eq(label == 1).to(torch::kFloat64).mean().item<double>());
}

// A sparse sample is the same as the whole row that it stands for.
TEST(ModelsTest, LogisticRegressionOnSparseSamples) {
  const DataShape sparse = {{{"feature", DataType::kInt64, {-1}},
                             {"value", DataType::kFloat32, {-1}},
                             {"label", DataType::kInt64, {}}},
                            2,
                            6};
  const auto model = valueOrThrow(entryOf("lr").make(sparse, {}))();
  EXPECT_THAT(model->rowSparse(), ElementsAre("embedding.weight"));
  const auto parameters = model->module().named_parameters();
  {
    const torch::NoGradGuard noGrad;
    parameters["embedding.weight"].copy_(
        torch::tensor({0.5, -1.0, 2.0, 0.25, 1.5, -0.75}).unsqueeze(1));
    parameters["bias"].fill_(0.1);
  }
  // The second one is padded.
  const torch::Tensor feature = torch::tensor({{1, 2, 5}, {4, 0, 0}}, torch::kInt64);
  const torch::Tensor value = torch::tensor({{1.0f, 0.5f, 2.0f}, {3.0f, 0.0f, 0.0f}});
  const torch::Tensor label = torch::tensor({0, 1}, torch::kInt64);
  const Output output = model->compute({feature, value, label});
  const double first = -1.0 + 1.0 - 1.5 + 0.1;
  const double second = 4.5 + 0.1;
  EXPECT_NEAR(output.loss.item<double>(),
              (std::log1p(std::exp(first)) + std::log1p(std::exp(-second))) / 2, 1e-6);
  EXPECT_EQ(output.metrics.at(0), 1);
  output.loss.backward();
  const torch::Tensor gradient = parameters["embedding.weight"].grad();
  ASSERT_TRUE(gradient.is_sparse());
  EXPECT_NEAR(gradient.to_dense()[5][0].item<double>(), 2.0 / (1 + std::exp(-first)) / 2, 1e-6);
  EXPECT_EQ(gradient.to_dense()[3][0].item<double>(), 0);
}

// Far above what chance or a broken gradient would give, in a second.
TEST(ModelsTest, Learn) {
  struct Case {
    const char* model;
    const char* data;
    double accuracy;
  };
  for (const auto& [model, data, accuracy] :
       {Case{"lr", "synthetic:lr:3000x50", 0.95}, Case{"softmax", "synthetic:mnist:6000", 0.85},
        Case{"snn", "synthetic:mnist:6000", 0.85}, Case{"mlp", "synthetic:mnist:6000", 0.85}}) {
    const Entry& entry = entryOf(model);
    Task task = valueOrThrow(makeTask(entry, defaults(entry.flags), data, Part::kTrain));
    task.optimizer = Adam{.lr = 2e-3};
    TrainOptions options;
    options.epochs = 3;
    options.quiet = true;
    options.threads = 1;
    const auto summary = Trainer(std::move(task)).run(options);
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_GT(summary->test->metrics.at(0), accuracy) << model;
    EXPECT_GT(summary->train.metrics.at(0), accuracy) << model;
  }
}

}  // namespace
}  // namespace colla::models
