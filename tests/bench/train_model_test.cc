// The files from which every system gets its data and its first weights.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <set>

#include "bench/train_files.h"

namespace colla::bench {
namespace {

template <typename T>
std::vector<T> readAll(const std::string& path) {
  std::vector<T> values(std::filesystem::file_size(path) / sizeof(T));
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(values.data()), std::streamsize(values.size() * sizeof(T)));
  return values;
}

class TrainFilesTest : public ::testing::TestWithParam<const char*> {
 protected:
  TrainFilesTest() : path_(::testing::TempDir() + "train_files_" + std::to_string(getpid())) {}
  ~TrainFilesTest() override { removeTrainFiles(path_); }
  const std::string path_;
};

template <typename T>
std::vector<double> numbers(const std::string& path) {
  const auto values = readAll<T>(path);
  return {values.begin(), values.end()};
}

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// What the models have, counted by hand.
std::int64_t parametersOf(const std::string& name) {
  if (name == "lr") return 10'000 + 1;
  if (name == "softmax") return 785 * 10;
  if (name == "snn") return 785 * 100 + 101 * 10;
  if (name == "mlp") return 785 * 100 + 101 * 100 + 101 * 10;
  // Eight convolutions of 256 filters, dense layers of 2000 and 48 units.
  if (name == "deepfam") return 256 * (21 * 176 + 8) + 2048 * 2000 + 2000 + 2000 * 48 + 48;
  // Keras counts 25,613,800 with 1,000 classes, 45,440 of them running statistics.
  if (name == "resnet50v2") return 25'613'800 - 45'440 - 2049 * 990;
  // Without its top 21,802,784, of them 34,432 running statistics.
  if (name == "inceptionv3") return 21'802'784 - 34'432 + 2049 * 10;
  // Embedding; gates with two biases; projection; softmax.
  return 200'000 * 128 + 1024 * (128 + 128 + 2) + 128 * 256 + 200'000 * 129;
}

TEST_P(TrainFilesTest, FitTheModel) {
  const TrainModel& model = **parseTrainModel(GetParam());
  constexpr std::int64_t kSamples = 50;
  ASSERT_TRUE(writeTrainFiles(model, kSamples, path_).ok());

  const bool words = model.inputType() == DataType::kInt64;
  const bool letters = model.inputType() == DataType::kUInt8;
  const auto inputs = words     ? numbers<std::int64_t>(path_ + ".x")
                      : letters ? numbers<std::uint8_t>(path_ + ".x")
                                : numbers<float>(path_ + ".x");
  EXPECT_EQ(std::ssize(inputs), kSamples * product(model.input));
  EXPECT_GT(std::set(inputs.begin(), inputs.end()).size(), 10U);
  if (letters) {
    EXPECT_EQ(std::ranges::count(inputs, 0), 0);  // No padding, which would cost less.
    EXPECT_LT(std::ranges::max(inputs), 25);
  }

  const auto targets = numbers<std::int64_t>(path_ + ".y");
  EXPECT_EQ(std::ssize(targets), kSamples * product(model.target));
  EXPECT_GE(std::set(targets.begin(), targets.end()).size(), 2U);
  EXPECT_GE(std::ranges::min(targets), 0);
  EXPECT_LT(std::ranges::max(targets), static_cast<double>(model.classes));
  if (words) {  // Each word is followed by the next one.
    EXPECT_TRUE(std::equal(inputs.begin() + 1, inputs.end(), targets.begin()));
    EXPECT_GT(std::ranges::max(inputs), 100'000);
  }

  const auto weights = readAll<float>(path_ + ".w");
  EXPECT_EQ(std::ssize(weights), parametersOf(GetParam()));
  EXPECT_LT(std::ranges::max(weights), 1.001F);
  EXPECT_GT(std::ranges::min(weights), -0.3F);
  EXPECT_EQ(trainFileBytes(model, kSamples), std::filesystem::file_size(path_ + ".x") +
                                                 std::filesystem::file_size(path_ + ".y") +
                                                 std::filesystem::file_size(path_ + ".w"));

  removeTrainFiles(path_);
  for (const char* end : {".x", ".y", ".w"}) EXPECT_FALSE(std::filesystem::exists(path_ + end));
}

INSTANTIATE_TEST_SUITE_P(Models, TrainFilesTest,
                         ::testing::Values("lr", "softmax", "snn", "mlp", "deepfam", "resnet50v2",
                                           "inceptionv3", "lm"),
                         [](const auto& test) { return std::string(test.param); });

TEST(TrainModelTest, UnknownNameIsRefusedWithThoseThatThereAre) {
  const auto model = parseTrainModel("resnet");
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().message(),
            "there is no model \"resnet\", only lr, softmax, snn, mlp, deepfam, deepfam-none, "
            "resnet50v2, inceptionv3, lm");
}

TEST(TrainModelTest, FilesThatCannotBeWrittenAreAnError) {
  const Status status =
      writeTrainFiles(**parseTrainModel("softmax"), 10, "/nonexistent/folder/softmax");
  EXPECT_EQ(status.code(), StatusCode::kIo);
}

}  // namespace
}  // namespace colla::bench
