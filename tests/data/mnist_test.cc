#include "data/image/mnist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <numeric>

#include "data/files.h"
#include "data/nearest_mean.h"
#include "support/error_of.h"
#include "support/scratch.h"

namespace colla::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MnistTest : public ::testing::Test {
 protected:
  // Three images of 2 x 2.
  const std::string images_ =
      idx({3, 2, 2}, std::string("\x00\x01\x02\x03\xff\x05\x06\x07pqrs", 12));
  const std::string labels_ = idx({3}, std::string("\x00\x09\x04", 3));
  Scratch folder_;

  std::string errorOf(Part part = Part::kTrain) {
    return test::errorOf(openMnist(folder_.path(), part));
  }
};

TEST_F(MnistTest, FindsTheUsualNames) {
  const auto check = [this](const std::string& images, const std::string& labels, Part part) {
    const bool packed = images.ends_with(".gz");
    const std::string imageFile = folder_.write(images, packed ? gzip(images_) : images_);
    const std::string labelFile = folder_.write(labels, labels_);
    EXPECT_TRUE(looksLikeMnist(folder_.path()));
    const auto dataset = openMnist(folder_.path(), part);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->describe(),
              std::string(toString(part)) + " part of " + folder_.path() +
                  ": 3 samples of image float32 1x2x2, label int64 (10 classes)");
    Random random(0);
    const auto batch = (*dataset)->read(std::vector<std::int64_t>{1, 0}, random);
    ASSERT_TRUE(batch.ok());
    EXPECT_THAT((*batch)[0].shape(), ElementsAre(2, 1, 2, 2));
    EXPECT_THAT((*batch)[0].as<float>(), ElementsAre(1, 5 / 255.0F, 6 / 255.0F, 7 / 255.0F, 0,
                                                     1 / 255.0F, 2 / 255.0F, 3 / 255.0F));
    EXPECT_THAT((*batch)[1].as<std::int64_t>(), ElementsAre(9, 0));
    std::filesystem::remove(imageFile);
    std::filesystem::remove(labelFile);
  };
  check("train-images-idx3-ubyte", "train-labels-idx1-ubyte", Part::kTrain);
  check("train-images.idx3-ubyte", "train-labels.idx1-ubyte", Part::kTrain);
  check("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte", Part::kTrain);
  check("t10k-images.idx3-ubyte.gz", "t10k-labels-idx1-ubyte", Part::kTest);
  EXPECT_FALSE(looksLikeMnist(folder_.path()));
}

TEST_F(MnistTest, SaysWhatIsMissing) {
  EXPECT_THAT(errorOf(), AllOf(HasSubstr("train-images-idx3-ubyte"), HasSubstr(folder_.path()),
                               HasSubstr("put MNIST's four files there")));
  folder_.write("train-images-idx3-ubyte", images_);
  EXPECT_THAT(errorOf(), HasSubstr("there is no train-labels-idx1-ubyte"));
  EXPECT_THAT(errorOf(Part::kTest), HasSubstr("there is no t10k-images-idx3-ubyte"));
}

// Contract: a part that is not there at all may be done without; half a part is damage.
TEST_F(MnistTest, HalfAPartIsNotAMissingOne) {
  const auto codeOf = [this] { return openMnist(folder_.path(), Part::kTest).status().code(); };
  EXPECT_EQ(codeOf(), StatusCode::kNotFound);
  const std::string images = folder_.write("t10k-images-idx3-ubyte", images_);
  EXPECT_EQ(codeOf(), StatusCode::kIo);
  EXPECT_THAT(errorOf(Part::kTest), HasSubstr("there is no t10k-labels-idx1-ubyte"));
  std::filesystem::remove(images);
  folder_.write("t10k-labels.idx1-ubyte.gz", gzip(labels_));
  EXPECT_EQ(codeOf(), StatusCode::kIo);
  EXPECT_THAT(errorOf(Part::kTest), HasSubstr("there is no t10k-images-idx3-ubyte"));
}

TEST_F(MnistTest, SaysWhichFileIsWrong) {
  const std::string images = folder_.write("train-images-idx3-ubyte", images_);
  const std::string labels = folder_.write("train-labels-idx1-ubyte", idx({3}, "\x01\x0a\x02"));
  EXPECT_THAT(errorOf(), HasSubstr(labels + ": record 1 has label 10; labels are 0 to 9"));
  folder_.write("train-labels-idx1-ubyte", idx({2}, "\x01\x02"));
  EXPECT_THAT(errorOf(), HasSubstr(images + " has 3 images, but " + labels + " has 2 labels"));
  folder_.write("train-images-idx3-ubyte", labels_);
  EXPECT_THAT(errorOf(), AllOf(HasSubstr(images), HasSubstr("is it another file, renamed?")));
  folder_.write("train-images-idx3-ubyte", "");
  EXPECT_THAT(errorOf(), HasSubstr(images + ": the file is empty"));
}

TEST_F(MnistTest, DoesNotWaitForAPipe) {
  ASSERT_EQ(::mkfifo((folder_.path() + "/train-images-idx3-ubyte").c_str(), 0600), 0);
  EXPECT_THAT(errorOf(), HasSubstr("train-images-idx3-ubyte: it is not a file"));
}

// Real images: what the Debian package dataset-fashion-mnist installs.
TEST(FashionMnistTest, ReadsTheRealThing) {
  const std::string folder = "/usr/share/datasets/fashion-mnist";
  if (!looksLikeMnist(folder)) GTEST_SKIP() << "install the package dataset-fashion-mnist";
  const auto train = openDataset(folder, Part::kTrain);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ((*train)->size(), 60'000);
  const auto test = openDataset("mnist:" + folder, Part::kTest);
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ((*test)->size(), 10'000);
  // What numpy finds.
  EXPECT_NEAR(nearestMeanAccuracy(**train, **test), 0.6768, 0.0005);
}

}  // namespace
}  // namespace colla::data
