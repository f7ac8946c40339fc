#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "colla/dataset.h"
#include "data/files.h"

namespace colla {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string errorOf(std::string_view text) {
  const auto dataset = openDataset(text, Part::kTrain);
  EXPECT_FALSE(dataset.ok()) << text;
  return toString(dataset.status());
}

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
}

TEST(OpenTest, UnknownNamesListWhatThereIs) {
  const auto lists = AllOf(HasSubstr("mnist:FOLDER"), HasSubstr("synthetic:lr[:SAMPLESxFEATURES]"),
                           HasSubstr("synthetic:mnist[:SAMPLES]"));
  EXPECT_THAT(errorOf("imagenet"), AllOf(HasSubstr("\"imagenet\" is neither"), lists));
  EXPECT_THAT(errorOf(""), lists);
  EXPECT_THAT(errorOf("synthetic:mnistx"), lists);
  const data::TestFolder folder;
  EXPECT_THAT(errorOf(folder.path()), AllOf(HasSubstr(folder.path()), lists));
}

TEST(OpenTest, RefusesWrongSizes) {
  for (const std::string_view size : {"0", "-5", "many", "10x10", "99999999999999999999", "5 "}) {
    EXPECT_THAT(errorOf("synthetic:mnist:" + std::string(size)),
                HasSubstr("the size is to be a number of samples"));
  }
  for (const std::string_view size : {"10", "10x", "x10", "10x10x10", "0x5", "5x9999999999999"}) {
    EXPECT_THAT(errorOf("synthetic:lr:" + std::string(size)), HasSubstr("SAMPLESxFEATURES"));
  }
  EXPECT_THAT(errorOf("synthetic:lr:1000000000x1000000"), HasSubstr("choose a smaller size"));
  EXPECT_THAT(errorOf("synthetic:mnist:9000000000000000000"), HasSubstr("choose a smaller size"));
}

}  // namespace
}  // namespace colla
