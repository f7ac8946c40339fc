#include "data/sparse/libsvm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/samples.h"
#include "support/scratch.h"

namespace colla::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LibsvmTest : public ::testing::Test {
 protected:
  Scratch folder_;
  std::string errorOf(const std::string& contents) {
    return refusal("libsvm:" + folder_.write("some", contents));
  }
};

TEST_F(LibsvmTest, ReadsBothParts) {
  const std::string file = folder_.write(
      "heart", "# a file\n+1 1:0.5 3:-2e-1 # all of it\n-1\n\n  1   2:+3 \t 3:.25 4:1 \r\n-1 4:7");
  folder_.write("heart.t", "-1 6:1\n");
  const auto train = opened("libsvm:" + file);
  EXPECT_EQ(train->describe(), "train part of " + file +
                                   ": 4 samples of feature int64 ?, value float32 ?, label int64 "
                                   "(2 classes), 6 features of which 1.5 are not zero");
  EXPECT_EQ(train->symbols(), 6);  // Feature 6 is in the other file.
  const Batch batch = readAll(*train);
  EXPECT_THAT(batch[0].shape(), ElementsAre(4, 3));
  EXPECT_THAT(batch[0].as<std::int64_t>(), ElementsAre(0, 2, 0, 0, 0, 0, 1, 2, 3, 3, 0, 0));
  EXPECT_THAT(batch[1].as<float>(), ElementsAre(0.5F, -0.2F, 0, 0, 0, 0, 3, 0.25F, 1, 7, 0, 0));
  EXPECT_THAT(batch[2].as<std::int64_t>(), ElementsAre(1, 0, 1, 0));
  // A batch is as long as its longest sample, and one of empty samples still has a column.
  EXPECT_THAT(readSome(*train, {3, 0})[0].shape(), ElementsAre(2, 2));
  EXPECT_THAT(readSome(*train, {1})[0].shape(), ElementsAre(1, 1));
  const auto test = opened("libsvm:" + file, Part::kTest);
  EXPECT_EQ(test->symbols(), 6);
  EXPECT_THAT(readAll(*test)[2].as<std::int64_t>(), ElementsAre(0));
}

TEST_F(LibsvmTest, SplitsOneFileAndSortsTheClasses) {
  std::string text;
  for (const char* label : {"10", "-3", "2.0", "10", "7", "-3"})
    text += std::string(label) + " 1:1\n";
  const std::string file = folder_.write("all", text);
  const auto train = opened("libsvm:" + file);
  EXPECT_EQ(train->classes(), 4);  // -3, 2, 7, 10
  EXPECT_THAT(readAll(*train)[2].as<std::int64_t>(), ElementsAre(3, 0, 1, 3, 0));
  EXPECT_THAT(readAll(*opened("libsvm:" + file, Part::kTest))[2].as<std::int64_t>(),
              ElementsAre(2));
}

// Contract: both parts have the same classes, which have the labels as names.
TEST_F(LibsvmTest, LabelsOfTheTestAreThoseOfTheTraining) {
  const std::string file = folder_.write("some", "3 1:1\n-1 1:2\n");
  const std::string test = folder_.write("some.t", "-1 1:1\n# no 7\n7 1:1\n");
  for (const Part part : {Part::kTrain, Part::kTest}) {
    EXPECT_THAT(refusal("libsvm:" + file, part),
                AllOf(HasSubstr(test + ":3: label 7 "), HasSubstr("does not occur in " + file)));
  }
  folder_.write("some.t", "3 1:1\n");
  EXPECT_THAT(opened("libsvm:" + file, Part::kTest)->words(), ElementsAre("-1", "3"));
  EXPECT_THAT(readAll(*opened("libsvm:" + file, Part::kTest))[2].as<std::int64_t>(),
              ElementsAre(1));
}

TEST_F(LibsvmTest, NamesFileAndLine) {
  const std::string file = folder_.path() + "/some";
  EXPECT_THAT(errorOf("1 1:1\nx 1:1\n"), HasSubstr(file + ":2: \"x\" is no label"));
  for (const char* label : {"0.5", "1,2", "nan", "1e300", "1x"}) {
    EXPECT_THAT(errorOf(std::string(label) + " 1:1\n"), HasSubstr("is no label")) << label;
  }
  EXPECT_THAT(errorOf("1 5\n"), HasSubstr(file + ":1: \"5\" is not FEATURE:VALUE"));
  EXPECT_THAT(errorOf("1 0:5\n"), HasSubstr("features are from 1 to 2147483647"));
  EXPECT_THAT(errorOf("1 -2:5\n"), HasSubstr("out of range"));
  EXPECT_THAT(errorOf("1 2147483648:5\n"), HasSubstr("out of range"));
  EXPECT_THAT(errorOf("1 qid:3 1:5\n"), HasSubstr("\"qid:3\" does not begin with the number"));
  EXPECT_THAT(errorOf("1 3:1 2:5\n"),
              HasSubstr("\"2:5\" comes behind feature 3; they are to be in ascending order"));
  EXPECT_THAT(errorOf("1 3:1 3:5\n"), HasSubstr("ascending order"));
  for (const char* value : {"", "x", "1x", "nan", "inf", "1e99"}) {
    EXPECT_THAT(errorOf("1 1:" + std::string(value) + "\n"),
                HasSubstr("does not end with a number"))
        << value;
  }
  EXPECT_THAT(errorOf("1 1:1\n1 1:2\n"), HasSubstr(file + ": all labels are 1"));
  EXPECT_THAT(errorOf(""), HasSubstr(file + ": there are no samples in it"));
  EXPECT_THAT(errorOf("# nothing\n"), HasSubstr("there are no samples in it"));
  EXPECT_THAT(refusal("libsvm:" + file + "x"), HasSubstr("there is no file "));
  folder_.write("some", "1 1:1\n0 1:1\n");
  EXPECT_THAT(refusal("libsvm:" + file, Part::kTest),
              AllOf(HasSubstr("not found"), HasSubstr("fewer than five")));
  EXPECT_THAT(refusal("libsvm:" + file, Part::kTrain, ofLength(5)), HasSubstr("no sequences"));
}

}  // namespace
}  // namespace colla::data
