// The files from which every system gets its data and its first weights.
#include "bench/train_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

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

TEST_P(TrainFilesTest, FitTheModel) {
  const TrainModel& model = **parseTrainModel(GetParam());
  constexpr std::int64_t kSamples = 50;
  ASSERT_TRUE(writeTrainFiles(model, kSamples, path_).ok());

  std::vector<double> inputs;
  if (model.letters) {
    for (const auto letter : readAll<std::uint8_t>(path_ + ".x")) inputs.push_back(letter);
    EXPECT_EQ(std::ranges::count(inputs, 0), 0);  // No padding, which would cost less.
    EXPECT_LT(std::ranges::max(inputs), 25);
  } else {
    for (const auto input : readAll<float>(path_ + ".x")) inputs.push_back(input);
  }
  EXPECT_EQ(std::ssize(inputs), kSamples * model.features());
  EXPECT_GT(std::set(inputs.begin(), inputs.end()).size(), 10U);

  std::vector<double> targets;
  for (const auto target : readAll<std::int64_t>(path_ + ".y")) targets.push_back(target);
  EXPECT_EQ(std::ssize(targets), kSamples);
  const std::set<double> distinct(targets.begin(), targets.end());
  EXPECT_GE(distinct.size(), 2U);
  for (const double target : distinct) {
    EXPECT_TRUE(target == std::floor(target) && target >= 0 &&
                target < (model.binary() ? 2 : model.widths.back()))
        << target;
  }

  std::size_t count = 0;
  for (std::size_t i = 1; i < model.widths.size(); ++i) {
    count += model.widths[i] * (model.widths[i - 1] + 1);
  }
  // DeepFam: eight convolutions of 256 filters, dense layers of 2000 and 48 units.
  if (model.letters) {
    count = 256 * (21 * 176 + 8) + 2048 * 2000 + 2000 + 2000 * 48 + 48;
  }
  const auto weights = readAll<float>(path_ + ".w");
  EXPECT_EQ(weights.size(), count);
  EXPECT_LE(std::abs(weights.front()),
            model.letters ? 0.1 : 1 / std::sqrt(double(model.features())));

  removeTrainFiles(path_);
  for (const char* end : {".x", ".y", ".w"}) EXPECT_FALSE(std::filesystem::exists(path_ + end));
}

INSTANTIATE_TEST_SUITE_P(Models, TrainFilesTest,
                         ::testing::Values("lr", "softmax", "snn", "mlp", "deepfam"),
                         [](const auto& test) { return std::string(test.param); });

TEST(TrainModelTest, UnknownNameIsRefusedWithThoseThatThereAre) {
  const auto model = parseTrainModel("resnet");
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().message(),
            "there is no model \"resnet\", only lr, softmax, snn, mlp, deepfam, deepfam-none");
}

TEST(TrainModelTest, FilesThatCannotBeWrittenAreAnError) {
  const Status status =
      writeTrainFiles(**parseTrainModel("softmax"), 10, "/nonexistent/folder/softmax");
  EXPECT_EQ(status.code(), StatusCode::kIo);
}

}  // namespace
}  // namespace colla::bench
