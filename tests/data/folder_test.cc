#include "data/image/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "data/pictures.h"
#include "data/samples.h"
#include "support/scratch.h"

namespace colla::data {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

class FolderTest : public ::testing::Test {
 protected:
  Scratch folder_;
  std::string add(const std::string& name, const std::string& contents) {
    std::filesystem::create_directories(
        (std::filesystem::path(folder_.path()) / name).parent_path());
    return folder_.write(name, contents);
  }
};

TEST_F(FolderTest, ReadsTheTwoParts) {
  add("train/dog/2.png", pngOf(plain({6, 8}, 51, 51, 51)));
  add("train/dog/1.JPG", jpegOf(plain({20, 20}, 255, 255, 255)));
  add("train/cat/x.png", pngOf(plain({4, 5}, 102, 102, 102)));
  add("train/cat/notes.txt", "not an image");
  add("val/dog/7.png", pngOf(plain({4, 4}, 0, 0, 0)));
  const auto train = opened(folder_.path());  // By what is in it.
  EXPECT_FALSE(train->inMemory());
  EXPECT_EQ(train->describe(), "train part of " + folder_.path() +
                                   ": 3 samples of image float32 3x4x5, label int64 (2 classes)");
  const Batch batch = readAll(*train);
  EXPECT_THAT(batch[1].as<std::int64_t>(), ElementsAre(0, 1, 1));  // cat, dog
  EXPECT_THAT(batch[0].as<float>().subspan(0, 60), Each(0.4F));
  EXPECT_THAT(batch[0].as<float>().subspan(60, 60), Each(FloatNear(1, 0.01)));
  EXPECT_THAT(batch[0].as<float>().subspan(120, 60), Each(FloatNear(0.2, 1e-6)));
  const auto test = opened("images:" + folder_.path(), Part::kTest, sized(7, 9));
  EXPECT_EQ(test->classes(), 2);
  EXPECT_THAT(readAll(*test)[1].as<std::int64_t>(), ElementsAre(1));
  EXPECT_THAT(readAll(*test)[0].shape(), ElementsAre(1, 3, 7, 9));
}

// Contract: of classes alone, every fifth image is for the test, and nothing is in both.
TEST_F(FolderTest, SplitsClassesAlone) {
  for (int i = 0; i < 6; ++i) {
    const std::string name = std::to_string(i) + ".png";
    add("a/" + name, pngOf(plain({2, 2}, i, i, i)));
    add("b/" + name, pngOf(plain({2, 2}, i, i, i)));
  }
  const auto train = opened(folder_.path());
  EXPECT_EQ(train->size(), 10);
  const Batch test = readAll(*opened(folder_.path(), Part::kTest));
  EXPECT_THAT(test[1].as<std::int64_t>(), ElementsAre(0, 1));
  EXPECT_THAT(test[0].as<float>(), Each(4 / 255.0F));
}

TEST_F(FolderTest, SaysWhatIsWrong) {
  EXPECT_THAT(refusal("images:" + folder_.path()),
              AllOf(HasSubstr("not found"), HasSubstr("there are no images")));
  add("train/cat/1.png", pngOf(plain({4, 5}, 1, 2, 3)));
  const std::string damaged = add("train/cat/2.png", "no image");
  const auto train = opened(folder_.path());
  Random random(0);
  const auto batch = train->read(std::vector<std::int64_t>{0, 1}, random);
  ASSERT_FALSE(batch.ok());
  EXPECT_THAT(toString(batch.status()), HasSubstr(damaged + ": this is neither a JPEG nor a PNG"));
  add("train/cat/2.png", "");  // Whichever it is.
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("train/cat/2.png: the file is empty"));
  EXPECT_THAT(refusal(folder_.path(), Part::kTest), HasSubstr("not found"));
  add("test/cow/1.png", pngOf(plain({4, 5}, 1, 2, 3)));
  EXPECT_THAT(refusal(folder_.path(), Part::kTest),
              HasSubstr("test/cow: the training part has no class of that name"));
  EXPECT_THAT(refusal(folder_.path(), Part::kTrain, ofLength(4)), HasSubstr("no sequences"));
}

}  // namespace
}  // namespace colla::data
