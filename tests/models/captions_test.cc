// `im2txt`: whose weights its Inception has, and what the LSTM is shown in which order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/entries.h"
#include "models/predicts.h"
#include "models/weights_file.h"

namespace colla::models {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kUnits = 8;
constexpr std::int64_t kNumbers = 6;  // Of a word, and of an image.
const DataShape kCaptioned = {{{"image", DataType::kFloat32, {3, 75, 75}},
                               {"caption", DataType::kInt64, {-1}},
                               {"length", DataType::kInt64, {}}},
                              9};

std::unique_ptr<Model> captioner(const std::string& weights) {
  return valueOrThrow(tryMake("im2txt", kCaptioned,
                              {{"input", "75x75"},
                               {"units", std::to_string(kUnits)},
                               {"embedding", std::to_string(kNumbers)},
                               {"inception-weights", weights}}))();
}

std::unique_ptr<Model> inceptionOf(const Values& values) {
  const DataShape images = {
      {{"image", DataType::kFloat32, {3, 75, 75}}, {"label", DataType::kInt64, {}}}, 5};
  return valueOrThrow(tryMake("inceptionv3", images, values))();
}

// A file with weights of Inception that sees differences: BatchNorm's shifts are not those of the
// beginning, and its statistics are those of images, of which a step keeps a hundredth.
std::string inceptionFile(const Scratch& folder) {
  const auto model = inceptionOf({{"input", "75x75"}});
  const torch::NoGradGuard noGrad;
  for (const auto& item : model->module().named_parameters()) {
    if (item.key().ends_with("bn.bias")) item.value().uniform_(-0.2, 0.2);
  }
  for (const torch::Tensor& buffer : model->module().buffers()) buffer.zero_();
  model->compute({torch::rand({8, 3, 75, 75}), torch::zeros({8}, torch::kInt64)});
  for (const torch::Tensor& buffer : model->module().buffers()) buffer.mul_(100);
  return saveWeights(folder, *model);
}

// Contract: a caption's words are said by an LSTM whose first input is the embedding of what
// Inception, with the file's weights, sees in the image, and whose further ones are the words from
// <s> on. The loss is the mean over captions of the mean over their words. All of it is computed
// once more here, by libtorch's own LSTM.
TEST(CaptionsTest, AreSaidByAnLstmThatSawTheImageFirst) {
  const Scratch folder;
  torch::manual_seed(1);
  const std::string file = inceptionFile(folder);
  torch::manual_seed(2);
  const auto model = captioner(file);
  model->module().eval();
  const torch::NoGradGuard noGrad;
  const auto parameters = model->module().named_parameters();
  // As they begin, a caption would depend on little.
  for (const auto& item : parameters) {
    if (!item.key().starts_with("inception.")) item.value().uniform_(-0.7, 0.7);
  }

  const torch::Tensor images = torch::rand({2, 3, 75, 75});
  const torch::Tensor captions = torch::tensor({{1, 4, 8, 5, 2}, {1, 7, 2, 0, 0}}, torch::kInt64);
  const torch::Tensor lengths = torch::tensor({5, 3}, torch::kInt64);

  const auto inception = inceptionOf(
      {{"input", "75x75"}, {"include-top", "false"}, {"pooling", "avg"}, {"weights", file}});
  inception->module().eval();
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(kNumbers, kUnits));
  for (const auto& item : lstm->named_parameters()) {
    item.value().copy_(parameters["lstm." + item.key()]);
  }
  double loss = 0;
  for (std::int64_t i = 0; i < 2; ++i) {
    const auto columns = dynamic_cast<Predicts&>(*inception).predict({images.narrow(0, i, 1)});
    const torch::Tensor seen = std::get<torch::Tensor>(columns.at(0).values);
    ASSERT_GT(seen.std().item<double>(), 0);
    std::vector<torch::Tensor> inputs = {seen.mm(parameters["image_embedding.weight"].t())};
    const std::int64_t words = lengths[i].item<std::int64_t>() - 1;
    for (std::int64_t word = 0; word < words; ++word) {
      const auto number = captions[i][word].item<std::int64_t>();
      inputs.push_back(parameters["embedding.weight"].narrow(0, number, 1));
    }
    const torch::Tensor said = std::get<0>(lstm->forward(torch::stack(inputs)));
    double cost = 0;
    for (std::int64_t word = 0; word < words; ++word) {
      // What it says when it was shown the image is not asked for.
      const torch::Tensor logits =
          said[word + 1].mm(parameters["softmax.weight"].t()) + parameters["softmax.bias"];
      const auto next = captions[i][word + 1].item<std::int64_t>();
      cost -= torch::log_softmax(logits, 1)[0][next].item<double>();
    }
    loss += cost / static_cast<double>(words) / 2;
  }

  const auto lossOf = [&](const torch::Tensor& shown) {
    return model->compute({shown, captions, lengths}).loss.item<double>();
  };
  EXPECT_NEAR(lossOf(images), loss, 1e-4);
  // And it can be another one.
  EXPECT_GT(std::abs(lossOf(images.flip(0)) - loss), 1e-2);
}

TEST(CaptionsTest, FileOfInceptionsWeightsIsNamed) {
  EXPECT_THAT(refusal("im2txt", kCaptioned,
                      {{"input", "75x75"}, {"inception-weights", "/nowhere/w.safetensors"}}),
              AllOf(HasSubstr("--inception-weights"), HasSubstr("/nowhere/w.safetensors")));
}

}  // namespace
}  // namespace colla::models
