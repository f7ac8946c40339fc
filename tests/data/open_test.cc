#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "colla/dataset.h"
#include "data/samples.h"
#include "support/scratch.h"

namespace colla {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string openErrorOf(std::string_view text) { return data::refusal(text); }

TEST(OpenTest, SyntheticSetsHaveTheSizeAskedFor) {
  const auto describe = [](std::string_view text, Part part) {
    const auto dataset = openDataset(text, part);
    return dataset.ok() ? (*dataset)->describe() : toString(dataset.status());
  };
  EXPECT_EQ(describe("synthetic:mnist", Part::kTrain),
            "synthetic:mnist, train part: 60000 samples of image float32 1x28x28, label int64 "
            "(10 classes)");
  EXPECT_EQ(describe("synthetic:mnist:600", Part::kTest),
            "synthetic:mnist, test part: 100 samples of image float32 1x28x28, label int64 "
            "(10 classes)");
  EXPECT_EQ(describe("synthetic:lr:120x50", Part::kTrain),
            "synthetic:lr, train part: 120 samples of features float32 50, label int64 "
            "(2 classes)");
  EXPECT_EQ(describe("synthetic:lr:1x1", Part::kTest),
            "synthetic:lr, test part: 1 samples of features float32 1, label int64 (2 classes)");
  EXPECT_EQ(describe("synthetic:cifar10:600", Part::kTest),
            "synthetic:cifar10, test part: 100 samples of image float32 3x32x32, label int64 "
            "(10 classes)");
  EXPECT_EQ(describe("synthetic:cifar100:600", Part::kTest),
            "synthetic:cifar100, test part: 100 samples of image float32 3x32x32, label int64 "
            "(100 classes)");
  EXPECT_EQ(describe("synthetic:gpcr:600", Part::kTest),
            "synthetic:gpcr, test part: 100 samples of sequence uint8 1000, label int64 "
            "(48 classes)");
  EXPECT_EQ(describe("synthetic:text:2001x300", Part::kTrain),
            "synthetic:text, train part: 100 samples of words int64 20, next int64 20 "
            "(300 classes)");
  EXPECT_EQ(describe("synthetic:captions:60", Part::kTrain),
            "synthetic:captions, train part: 60 samples of image float32 3x32x32, caption int64 ?, "
            "length int64 (14 classes)");
  EXPECT_THAT(describe("synthetic:libsvm:60x70", Part::kTrain),
              AllOf(HasSubstr("60 samples of feature int64 ?, value float32 ?, label int64 "
                              "(2 classes), 70 features of which ")));
  EXPECT_EQ((*openDataset("synthetic:libsvm:60x70", Part::kTrain))->symbols(), 70);
  EXPECT_EQ((*openDataset("synthetic:gpcr:6", Part::kTrain))->symbols(), 25);
  EXPECT_EQ((*openDataset("synthetic:text:60", Part::kTest))->symbols(), 1000);
}

TEST(OpenTest, AShareHasEvenlySpreadTrainingSamples) {
  const auto whole = openDataset("synthetic:mnist:600", Part::kTrain);
  const auto share = openDataset("share:10%:synthetic:mnist:600", Part::kTrain);
  ASSERT_TRUE(whole.ok() && share.ok()) << share.status();
  EXPECT_EQ((*share)->size(), 60);
  EXPECT_EQ((*share)->classes(), 10);
  Random random(1);
  const std::vector<std::int64_t> first = {0, 1, 59};
  const std::vector<std::int64_t> same = {0, 10, 590};
  const auto some = (*share)->read(first, random);
  const auto those = (*whole)->read(same, random);
  ASSERT_TRUE(some.ok() && those.ok());
  for (std::size_t field = 0; field < 2; ++field) {
    EXPECT_TRUE(std::ranges::equal((*some)[field].bytes(), (*those)[field].bytes()));
  }
  const std::vector<std::int64_t> beyond = {60};
  EXPECT_FALSE((*share)->read(beyond, random).ok());
  EXPECT_EQ((*openDataset("share:10%:synthetic:mnist:600", Part::kTest))->size(), 100);
  EXPECT_EQ((*openDataset("share:1%:synthetic:lr:20x5", Part::kTrain))->size(), 1);
  for (const char* const text :
       {"share:0%:synthetic:mnist", "share:101%:synthetic:mnist", "share:x%:mnist",
        "share:10:synthetic:mnist", "share:%:synthetic:mnist"}) {
    EXPECT_THAT(openErrorOf(text), HasSubstr("is not a share of a data set")) << text;
  }
  EXPECT_THAT(openErrorOf("share:10%:nosuch"), HasSubstr("\"nosuch\" is neither"));
}

TEST(OpenTest, UnknownNamesListWhatThereIs) {
  const auto lists = AllOf(HasSubstr("mnist:FOLDER"), HasSubstr("synthetic:lr[:SAMPLESxFEATURES]"),
                           HasSubstr("synthetic:mnist[:SAMPLES]"));
  EXPECT_THAT(openErrorOf("imagenet"), AllOf(HasSubstr("\"imagenet\" is neither"), lists));
  EXPECT_THAT(openErrorOf(""), lists);
  EXPECT_THAT(openErrorOf("synthetic:mnistx"), lists);
  EXPECT_THAT(openErrorOf("cifar10"),
              HasSubstr("\"cifar10\" does not say where the files are; write cifar10:FOLDER"));
  const Scratch folder;
  EXPECT_THAT(openErrorOf(folder.path()), AllOf(HasSubstr(folder.path()), lists));
}

// Contract: what a model asks for is done or refused in one line, never ignored.
TEST(OpenTest, RefusesWhatASetCannotGive) {
  const auto refusal = [](std::string_view text, const ReadOptions& options) {
    return data::refusal(text, Part::kTrain, options);
  };
  const ReadOptions size = data::sized(64, 32);
  const ReadOptions augment = data::augmented();
  const ReadOptions length = data::ofLength(9);
  const ReadOptions vocabulary = data::withWords("words.txt");
  for (const std::string_view text :
       {"synthetic:lr:6x2", "synthetic:libsvm:6x2", "synthetic:gpcr:6", "synthetic:text:99"}) {
    EXPECT_THAT(refusal(text, size), HasSubstr("has no images to scale to 64x32"));
    EXPECT_THAT(refusal(text, augment), HasSubstr("has no images to crop and flip"));
  }
  for (const std::string_view text :
       {"synthetic:lr:6x2", "synthetic:libsvm:6x2", "synthetic:mnist:6", "synthetic:cifar10:6"}) {
    EXPECT_THAT(refusal(text, length), HasSubstr("has no sequences to cut to a length of 9"));
  }
  for (const std::string_view text :
       {"synthetic:lr:6x2", "synthetic:mnist:6", "synthetic:text:99", "synthetic:captions:6"}) {
    EXPECT_THAT(refusal(text, vocabulary),
                HasSubstr("takes no vocabulary, but words.txt was given"));
  }
  EXPECT_THAT(refusal("synthetic:cifar10:6", data::sized(64, 0)), HasSubstr("scaled to 64x0"));
  EXPECT_THAT(refusal("synthetic:cifar10:6", data::sized(-1, 5)), HasSubstr("-1x5"));
  EXPECT_THAT(refusal("synthetic:cifar10:6", data::sized(1 << 20, 5)),
              HasSubstr("sides are from 1 to 16384"));
  EXPECT_THAT(refusal("synthetic:gpcr:6", data::ofLength(-4)), HasSubstr("a length of -4"));
  EXPECT_THAT(refusal("synthetic:captions:6", data::ofLength(2)), HasSubstr("no room for <s>"));
  EXPECT_THAT(refusal("synthetic:text:20", {}), HasSubstr("20 words are too few"));
}

TEST(OpenTest, LengthsAreHonoured) {
  const auto shapes = [](std::string_view text, std::int64_t length) {
    return (*openDataset(text, Part::kTrain, data::ofLength(length)))->fields()[0].shape;
  };
  EXPECT_EQ(shapes("synthetic:gpcr:6", 33), std::vector<std::int64_t>{33});
  EXPECT_EQ(shapes("synthetic:text:99", 7), std::vector<std::int64_t>{7});
  const auto captions = *openDataset("synthetic:captions:60", Part::kTrain, data::ofLength(4));
  Random random(0);
  const auto batch = *captions->read(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}, random);
  EXPECT_EQ(batch[1].shape()[1], 4);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(batch[1].as<std::int64_t>()[i * 4 + 3], 2);  // </s>
}

TEST(OpenTest, RefusesWrongSizes) {
  for (const std::string_view size : {"0", "-5", "many", "10x10", "99999999999999999999", "5 "}) {
    EXPECT_THAT(openErrorOf("synthetic:mnist:" + std::string(size)),
                HasSubstr("the size is to be a number of samples"));
  }
  for (const std::string_view size : {"10", "10x", "x10", "10x10x10", "0x5", "5x9999999999999"}) {
    EXPECT_THAT(openErrorOf("synthetic:lr:" + std::string(size)), HasSubstr("SAMPLESxFEATURES"));
  }
  for (const std::string_view size : {"x5", "9x", "99x4", "99xmany", "0"}) {
    EXPECT_THAT(openErrorOf("synthetic:text:" + std::string(size)), HasSubstr("WORDSxVOCABULARY"));
  }
  EXPECT_THAT(openErrorOf("synthetic:gpcr:9000000000000000000"),
              HasSubstr("choose a smaller size"));
  EXPECT_THAT(openErrorOf("synthetic:lr:1000000000x1000000"), HasSubstr("choose a smaller size"));
  EXPECT_THAT(openErrorOf("synthetic:mnist:9000000000000000000"),
              HasSubstr("choose a smaller size"));
}

}  // namespace
}  // namespace colla
