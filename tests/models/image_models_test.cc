// The image models: sizes and numbers of Keras', first weights, what they refuse, and gradients in
// the parameters' own order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "colla/error.h"
#include "models/entries.h"
#include "models/predicts.h"
#include "models/weights_file.h"

namespace colla::models {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

DataShape imagesOf(std::int64_t size, std::int64_t classes) {
  return {{{"image", DataType::kFloat32, {3, size, size}}, {"label", DataType::kInt64, {}}},
          classes,
          0};
}

std::unique_ptr<Model> make(std::string_view name, const DataShape& data, const Values& given) {
  return valueOrThrow(tryMake(name, data, given))();
}

// As Keras counts: with running statistics, and without num_batches_tracked, which it has not.
std::int64_t kerasCount(Model& model) {
  std::int64_t count = 0;
  for (const torch::Tensor& tensor : model.module().parameters()) count += tensor.numel();
  for (const torch::Tensor& tensor : model.module().buffers()) {
    if (tensor.is_floating_point()) count += tensor.numel();
  }
  return count;
}

std::vector<Column> predict(Model& model, const torch::Tensor& images) {
  const torch::NoGradGuard noGrad;
  model.module().eval();
  return dynamic_cast<Predicts&>(model).predict({images});
}

torch::Tensor numbers(const std::vector<Column>& columns, std::size_t column) {
  return std::get<torch::Tensor>(columns.at(column).values);
}

TEST(ImageModelsTest, HaveAsManyParametersAsInKeras) {
  const DataShape data = imagesOf(128, 1000);
  EXPECT_EQ(kerasCount(*make("resnet50v2", data, {})), 25'613'800);
  EXPECT_EQ(kerasCount(*make("resnet101v2", data, {})), 44'675'560);
  EXPECT_EQ(kerasCount(*make("resnet152v2", data, {})), 60'380'648);
  const Values headless = {{"include-top", "false"}};
  EXPECT_EQ(kerasCount(*make("resnet50v2", data, headless)), 23'564'800);
  EXPECT_EQ(kerasCount(*make("inceptionv3", imagesOf(299, 1000), headless)), 21'802'784);
  EXPECT_EQ(kerasCount(*make("inceptionv3", imagesOf(299, 1000), {})), 23'851'784);
}

TEST(ImageModelsTest, NameParametersAsPyTorchWould) {
  const auto resnet = make("resnet50v2", imagesOf(128, 7), {});
  const auto parameters = resnet->module().named_parameters();
  for (const char* name : {"conv1.weight", "conv1.bias", "layer1.0.preact.weight",
                           "layer1.0.shortcut.bias", "layer1.0.conv1.weight", "layer1.0.bn1.bias",
                           "layer4.2.conv3.bias", "post.weight", "fc.weight"}) {
    EXPECT_TRUE(parameters.contains(name)) << name;
  }
  EXPECT_FALSE(parameters.contains("layer1.1.shortcut.weight"));
  EXPECT_FALSE(parameters.contains("layer1.0.conv1.bias"));
  EXPECT_TRUE(resnet->module().named_buffers().contains("layer3.5.bn2.running_var"));
  EXPECT_EQ(parameters["fc.weight"].size(0), 7);
}

// Features of an image: 2048 maps, one number of each for 32 pixels.
TEST(ImageModelsTest, FeaturesHaveKerasSizes) {
  const auto features = [](std::string_view name, std::int64_t size, const std::string& pooling) {
    const auto model = make(
        name, imagesOf(size, 10),
        {{"include-top", "false"}, {"pooling", pooling}, {"input", fmt::format("{0}x{0}", size)}});
    return numbers(predict(*model, torch::rand({1, 3, size, size})), 0).size(1);
  };
  EXPECT_EQ(features("resnet50v2", 128, "none"), 2048 * 4 * 4);
  EXPECT_EQ(features("resnet50v2", 33, "none"), 2048 * 2 * 2);
  EXPECT_EQ(features("resnet50v2", 64, "avg"), 2048);
  EXPECT_EQ(features("resnet50v2", 64, "max"), 2048);
  EXPECT_EQ(features("inceptionv3", 299, "none"), 2048 * 8 * 8);
  EXPECT_EQ(features("inceptionv3", 75, "none"), 2048);
}

TEST(ImageModelsTest, BeginAsKeras) {
  torch::manual_seed(3);
  const auto model = make("resnet50v2", imagesOf(128, 1000), {});
  const auto parameters = model->module().named_parameters();
  const torch::Tensor kernel = parameters["layer2.0.conv2.weight"];
  const double bound = std::sqrt(6.0 / (2 * 128 * 9));  // glorot_uniform
  EXPECT_LE(kernel.abs().max().item<double>(), bound);
  EXPECT_NEAR(kernel.std().item<double>(), bound / std::sqrt(3.0), bound * 0.01);
  EXPECT_EQ(parameters["conv1.bias"].abs().max().item<double>(), 0);
  EXPECT_LE(parameters["fc.weight"].abs().max().item<double>(), std::sqrt(6.0 / 3048));
  EXPECT_EQ(parameters["fc.bias"].abs().max().item<double>(), 0);
}

// Activations are channels-last, and oneDNN computes in orders of its own: the gradients are those
// of libtorch's plain kernels in double, at the same places.
TEST(ImageModelsTest, GradientsAreThoseOfPlainKernels) {
  for (const char* name : {"resnet50v2", "inceptionv3"}) {
    const std::int64_t size = std::string(name) == "resnet50v2" ? 32 : 75;
    torch::manual_seed(1);
    const Values input = {{"input", fmt::format("{0}x{0}", size)}};
    const auto model = make(name, imagesOf(size, 5), input);
    torch::manual_seed(1);
    const auto plain = make(name, imagesOf(size, 5), input);
    plain->module().to(torch::kFloat64);
    const torch::Tensor images = torch::rand({6, 3, size, size});
    const torch::Tensor labels = torch::tensor({0, 1, 2, 3, 4, 0}, torch::kInt64);

    const torch::Tensor loss = model->compute({images, labels}).loss;
    loss.backward();
    const torch::Tensor reference = plain->compute({images.to(torch::kFloat64), labels}).loss;
    reference.backward();
    EXPECT_NEAR(loss.item<double>(), reference.item<double>(), 1e-3) << name;
    const auto parameters = model->module().named_parameters();
    for (const auto& item : plain->module().named_parameters()) {
      const torch::Tensor grad = parameters[item.key()].grad();
      ASSERT_TRUE(grad.defined()) << name << " " << item.key();
      const double error = (grad - item.value().grad()).norm().item<double>();
      const double scale = item.value().grad().norm().item<double>();
      // So deep a network makes some hundredths of the rounding of float32, whatever the kernels;
      // elements in another order would be off by more than the whole. A bias in front of a
      // normalisation has no gradient but rounding.
      EXPECT_LE(error, 0.2 * scale + 1e-4) << name << " " << item.key();
    }
  }
}

// Contract: a slice of one image trains, also where its last maps are single pixels, as in Keras:
// of one value per channel BatchNorm leaves the shift, and the variance that it keeps is that of 0.
TEST(ImageModelsTest, OneImageIsEnough) {
  for (const auto& [name, size, last] : {std::tuple{"resnet50v2", 32, "post"},
                                         std::tuple{"inceptionv3", 75, "mixed10.branch1x1.bn"}}) {
    torch::manual_seed(1);
    const auto model = make(name, imagesOf(size, 5), {{"input", fmt::format("{0}x{0}", size)}});
    auto parameters = model->module().named_parameters();
    {
      const torch::NoGradGuard noGrad;
      parameters[fmt::format("{}.bias", last)].fill_(0.25);
    }
    const Output output =
        model->compute({torch::rand({1, 3, size, size}), torch::tensor({3}, torch::kInt64)});
    output.loss.backward();
    EXPECT_TRUE(std::isfinite(output.loss.item<double>())) << name;
    for (const auto& item : parameters) {
      ASSERT_TRUE(item.value().grad().defined()) << name << " " << item.key();
      EXPECT_TRUE(torch::isfinite(item.value().grad()).all().item<bool>()) << item.key();
    }
    for (const auto& item : model->module().named_buffers()) {
      EXPECT_TRUE(torch::isfinite(item.value()).all().item<bool>()) << name << " " << item.key();
    }
    const auto buffers = model->module().named_buffers();
    const torch::Tensor variance = buffers[fmt::format("{}.running_var", last)];
    EXPECT_TRUE(torch::allclose(variance, torch::full_like(variance, 0.99))) << name;
    const torch::Tensor mean = buffers[fmt::format("{}.running_mean", last)];
    EXPECT_GT(mean.abs().max().item<double>(), 0) << name;
    // The dense layer sees the shift, and so has this gradient whatever the image was.
    const torch::Tensor fc = parameters["fc.weight"].grad()[0].abs().narrow(0, 0, 320);
    EXPECT_TRUE(torch::allclose(fc, 0.25 * parameters["fc.bias"].grad()[0].abs())) << name;
  }
}

TEST(ImageModelsTest, PredictProbabilitiesOrLogits) {
  torch::manual_seed(1);
  const Values input = {{"input", "32x32"}};
  const auto model = make("resnet50v2", imagesOf(32, 5), input);
  torch::manual_seed(1);
  Values plain = input;
  plain["classifier-activation"] = "none";
  const auto logits = make("resnet50v2", imagesOf(32, 5), plain);
  const torch::Tensor images = torch::rand({4, 3, 32, 32});
  const auto columns = predict(*model, images);
  const auto others = predict(*logits, images);
  EXPECT_EQ(columns[1].name, "probability");
  EXPECT_EQ(others[1].name, "logit");
  EXPECT_TRUE(torch::equal(numbers(columns, 1), numbers(others, 1).softmax(1)));
  EXPECT_TRUE(torch::equal(numbers(columns, 0), numbers(others, 1).argmax(1)));
}

TEST(WeightsTest, AreReadFromAFile) {
  const Scratch folder;
  torch::manual_seed(1);
  const auto first = make("resnet50v2", imagesOf(32, 5), {{"input", "32x32"}});
  const std::string file = saveWeights(folder, *first);
  const torch::Tensor images = torch::rand({3, 3, 32, 32});
  const Values values = {{"input", "32x32"}, {"weights", file}};
  torch::manual_seed(2);
  const auto second = make("resnet50v2", imagesOf(32, 5), values);
  EXPECT_TRUE(
      torch::equal(numbers(predict(*first, images), 1), numbers(predict(*second, images), 1)));

  // Without a top the file's is left aside.
  Values headless = values;
  headless["include-top"] = "false";
  EXPECT_EQ(numbers(predict(*make("resnet50v2", imagesOf(32, 5), headless), images), 0).size(1),
            2048);

  // What does not fit is told by name.
  const auto refused = [&](std::string_view model, std::int64_t classes) {
    try {
      make(model, imagesOf(model == "inceptionv3" ? 299 : 32, classes),
           model == "inceptionv3" ? Values{{"weights", file}} : values);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was refused");
  };
  EXPECT_THAT(refused("resnet50v2", 6),
              AllOf(HasSubstr(file), HasSubstr("\"fc."), HasSubstr("[5")));
  EXPECT_THAT(refused("inceptionv3", 5), HasSubstr("the checkpoint has no \"conv1.conv.weight\""));
}

TEST(WeightsTest, AMissingOrDamagedFileIsNamedAtOnce) {
  const auto with = [](const std::string& file) {
    return refusal("resnet50v2", imagesOf(128, 5), {{"weights", file}});
  };
  EXPECT_THAT(with("/nowhere/w.safetensors"), HasSubstr("/nowhere/w.safetensors"));
  EXPECT_THAT(with("/proc/version"), HasSubstr("/proc/version"));
}

TEST(ImageModelsTest, RefuseWhatDoesNotFit) {
  const DataShape data = imagesOf(128, 10);
  for (const char* wrong : {"128", "x", "128x", "0x0", "128x128x3", "-1x5", "999999x999999"}) {
    EXPECT_THAT(refusal("resnet50v2", data, {{"input", wrong}}), HasSubstr("--input is")) << wrong;
  }
  EXPECT_THAT(refusal("resnet50v2", data, {{"input", "31x31"}}), HasSubstr("from 32x32"));
  EXPECT_THAT(refusal("inceptionv3", data, {{"input", "74x99"}}), HasSubstr("from 75x75"));
  EXPECT_THAT(refusal("resnet50v2", data, {{"input", "64x64"}}),
              HasSubstr("\"image\" is 128x128, but the model wants 64x64"));
  EXPECT_THAT(refusal("resnet50v2", data, {{"classes", "9"}}), HasSubstr("the data has 10"));
  EXPECT_THAT(refusal("resnet50v2", data, {{"classes", "many"}}), HasSubstr("--classes"));
  EXPECT_THAT(refusal("resnet50v2", data, {{"pooling", "sum"}}), HasSubstr("none, avg, max"));
  EXPECT_THAT(refusal("resnet50v2", data, {{"include-top", "no"}}), HasSubstr("true, false"));
  EXPECT_THAT(refusal("resnet50v2", data, {{"classifier-activation", "relu"}}),
              HasSubstr("softmax, none"));
  EXPECT_THAT(refusal("resnet50v2", imagesOf(128, 0), {}), HasSubstr("0 classes"));
  const DataShape rows = {{{"x", DataType::kFloat32, {500}}, {"y", DataType::kInt64, {}}}, 2, 0};
  EXPECT_THAT(refusal("resnet50v2", rows, {}), HasSubstr("takes images"));

  const auto headless = make("resnet50v2", data, {{"include-top", "false"}});
  EXPECT_THROW(headless->compute({torch::rand({1, 3, 128, 128}), torch::zeros({1}, torch::kInt64)}),
               Error);
}

}  // namespace
}  // namespace colla::models
