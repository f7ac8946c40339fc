#include "data/image/cifar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "data/pickles.h"
#include "data/samples.h"
#include "support/scratch.h"

namespace colla::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kBytes = 3072;

// Its first pixel of each plane is `first`, `first` + 1, `first` + 2; all others are 51.
std::string image(int first) {
  std::string bytes(kBytes, 51);
  for (int channel = 0; channel < 3; ++channel) {
    bytes[channel * 1024] = static_cast<char>(first + channel);
  }
  return bytes;
}
std::string record(int label, int first) { return static_cast<char>(label) + image(first); }

class CifarTest : public ::testing::Test {
 protected:
  Scratch folder_;
  std::string errorOf(Cifar which, Part part = Part::kTrain) {
    return toString(openCifar(which, folder_.path(), part).status());
  }
};

TEST_F(CifarTest, ReadsTheBinaryVersion) {
  folder_.write("data_batch_2.bin", record(9, 30));
  folder_.write("data_batch_1.bin", record(3, 0) + record(0, 10));
  folder_.write("test_batch.bin", record(5, 7));
  folder_.write("batches.meta.txt", "airplane\n");
  const auto train = opened(folder_.path());  // By what is in it.
  EXPECT_EQ(train->describe(),
            "train part of " + folder_.path() +
                ": 3 samples of image float32 3x32x32, label int64 (10 classes)");
  const Batch batch = readAll(*train);
  EXPECT_THAT(batch[1].as<std::int64_t>(), ElementsAre(3, 0, 9));
  const auto pixels = batch[0].as<float>();
  EXPECT_EQ(pixels[1], 0.2F);
  EXPECT_EQ(pixels[kBytes + 1024], 11 / 255.0F);
  EXPECT_EQ(pixels[2 * kBytes + 2048], 32 / 255.0F);
  EXPECT_EQ(opened("cifar10:" + folder_.path(), Part::kTest)->size(), 1);
  EXPECT_EQ(opened(folder_.path(), Part::kTrain, sized(64, 48))->fields()[0].shape,
            (std::vector<std::int64_t>{3, 64, 48}));
}

TEST_F(CifarTest, ReadsThePythonVersion) {
  folder_.write("data_batch_1",
                pickleOf({{"labels", pickledList({3, 9})},
                          {"data", pickledArray(2, kBytes, image(0) + image(20))}}));
  folder_.write("test_batch", pickleOf({{"data", pickledArray(1, kBytes, image(5))},
                                        {"labels", pickledList({1})}}));
  const Batch batch = readAll(*opened(folder_.path()));
  EXPECT_THAT(batch[1].as<std::int64_t>(), ElementsAre(3, 9));
  EXPECT_EQ(batch[0].as<float>()[kBytes + 1024], 21 / 255.0F);
  EXPECT_THAT(readAll(*opened(folder_.path(), Part::kTest))[1].as<std::int64_t>(), ElementsAre(1));
}

TEST_F(CifarTest, ReadsCifar100) {
  folder_.write("train.bin", '\x13' + record(99, 0) + '\x01' + record(7, 10));
  folder_.write("test.bin", '\x02' + record(50, 0));
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("has no data set that Colla knows"));
  folder_.write("fine_label_names.txt", "apple\n");
  const auto train = opened(folder_.path());
  EXPECT_EQ(train->classes(), 100);
  EXPECT_THAT(readAll(*train)[1].as<std::int64_t>(), ElementsAre(99, 7));
  EXPECT_THAT(readAll(*opened("cifar100:" + folder_.path(), Part::kTest))[1].as<std::int64_t>(),
              ElementsAre(50));
  std::filesystem::remove(folder_.path() + "/train.bin");
  folder_.write("train", pickleOf({{"fine_labels", pickledList({98})},
                                   {"coarse_labels", pickledList({1})},
                                   {"data", pickledArray(1, kBytes, image(0))}}));
  EXPECT_THAT(readAll(*opened("cifar100:" + folder_.path()))[1].as<std::int64_t>(),
              ElementsAre(98));
}

TEST_F(CifarTest, SaysWhichFileIsWrong) {
  EXPECT_THAT(errorOf(Cifar::k10), AllOf(HasSubstr("not found"), HasSubstr("data_batch_1.bin"),
                                         HasSubstr(folder_.path())));
  EXPECT_THAT(errorOf(Cifar::k10, Part::kTest), HasSubstr("neither test_batch.bin"));
  EXPECT_THAT(errorOf(Cifar::k100), HasSubstr("neither train.bin"));

  const std::string file = folder_.write("data_batch_1.bin", record(1, 0) + record(10, 0));
  EXPECT_THAT(errorOf(Cifar::k10), HasSubstr(file + ": record 1 has label 10; labels are 0 to 9"));
  folder_.write("data_batch_1.bin", record(1, 0) + "more");
  EXPECT_THAT(
      errorOf(Cifar::k10),
      HasSubstr(file + ": the file ends inside of record 1: 3077 bytes are no whole number of "
                       "records of 3073"));
  folder_.write("data_batch_1.bin", "");
  EXPECT_THAT(errorOf(Cifar::k10), HasSubstr(file + ": the file is empty"));

  std::filesystem::remove(file);
  const std::string batch = folder_.write("data_batch_1", "\x80\x02}.");
  EXPECT_THAT(errorOf(Cifar::k10), HasSubstr(batch + ": has no \"data\" and \"labels\""));
  folder_.write("data_batch_1", pickleOf({{"labels", pickledList({1, 2})},
                                          {"data", pickledArray(1, kBytes, image(0))}}));
  EXPECT_THAT(errorOf(Cifar::k10), HasSubstr("no array of 2 rows of 3072 bytes"));
  folder_.write("data_batch_1", pickleOf({{"labels", pickledList({-1})},
                                          {"data", pickledArray(1, kBytes, image(0))}}));
  EXPECT_THAT(errorOf(Cifar::k10), HasSubstr("record 0 has label -1"));
  folder_.write("data_batch_1",
                pickleOf({{"labels", pickledList({1})}, {"data", pickledList({1})}}));
  EXPECT_THAT(errorOf(Cifar::k10), HasSubstr("\"data\" is not a numpy array"));
}

}  // namespace
}  // namespace colla::data
