#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "data/pictures.h"
#include "data/record/example.h"
#include "data/record/images.h"
#include "data/record/record_file.h"
#include "data/samples.h"
#include "support/error_of.h"
#include "support/scratch.h"

namespace colla::data {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

std::string record(const std::string& image, std::int64_t label) {
  return exampleOf({{"image/encoded", {.bytes = {image}}},
                    {"image/format", {.bytes = {"png"}}},
                    {"image/class/label", {.integers = {label}}}});
}
// An image of one grey, which is the label's.
std::string grey(std::int64_t label) {
  const int value = static_cast<int>(label);
  return record(pngOf(plain({2, 3}, value, value, value)), label);
}

class RecordImagesTest : public ::testing::Test {
 protected:
  Scratch folder_;
  const std::string all_ = "tfrecord:" + folder_.path();

  std::string write(const std::string& name, const std::vector<std::string>& records) {
    std::string path = folder_.path() + "/" + name;
    auto writer = RecordWriter::create(path);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const auto& one : records) EXPECT_TRUE(writer->append(std::as_bytes(std::span(one))).ok());
    EXPECT_TRUE(writer->close().ok());
    return path;
  }
  // Turns a bit of the last record's last byte around.
  static void damage(const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-5, std::ios::end);
    const int byte = file.get();
    file.seekp(-5, std::ios::end);
    file.put(static_cast<char>(byte ^ 1));
  }
  static std::string readingErrorOf(const Dataset& dataset, std::int64_t index) {
    Random random(0);
    return test::errorOf(dataset.read(std::vector{index}, random));
  }
};

TEST_F(RecordImagesTest, ReadsTheFilesOfBothParts) {
  write("train-00001-of-00002", {grey(51)});
  write("train-00000-of-00002", {grey(0), record(jpegOf(plain({8, 8}, 255, 255, 255)), 102)});
  write("validation-00000-of-00001", {grey(51), grey(102)});
  folder_.write("training.log", "not a TFRecord file");
  const auto train = opened(all_);
  EXPECT_FALSE(train->inMemory());
  EXPECT_EQ(train->describe(), "train part of " + folder_.path() +
                                   ": 3 samples of image float32 3x2x3, label int64 (103 classes)");
  const Batch batch = readAll(*train);
  EXPECT_THAT(batch[1].as<std::int64_t>(), ElementsAre(0, 102, 51));
  EXPECT_THAT(batch[0].as<float>().subspan(0, 18), Each(0.0F));
  EXPECT_THAT(batch[0].as<float>().subspan(18, 18), Each(FloatNear(1, 0.01)));
  EXPECT_THAT(batch[0].as<float>().subspan(36, 18), Each(FloatNear(0.2, 1e-6)));
  const auto test = opened(all_, Part::kTest, sized(4, 5));
  EXPECT_EQ(test->classes(), 103);
  EXPECT_THAT(readAll(*test)[1].as<std::int64_t>(), ElementsAre(51, 102));
  EXPECT_THAT(readAll(*test)[0].shape(), ElementsAre(2, 3, 4, 5));
  // A part that is called test comes first.
  write("flowers_test_00000-of-00001.tfrecord", {grey(7)});
  EXPECT_THAT(readAll(*opened(all_, Part::kTest))[1].as<std::int64_t>(), ElementsAre(7));
}

TEST_F(RecordImagesTest, TakesTheClassesFromLabels) {
  const std::string file = write("train.tfrecord", {grey(1), grey(2)});
  const std::string labels = folder_.write("labels.txt", "0:background\n1:cat\r\n4:dog: large\n");
  EXPECT_EQ(opened(all_)->classes(), 5);
  EXPECT_EQ(opened("tfrecord:" + file)->classes(), 5);
  folder_.write("labels.txt", "0:cat\n1:dog\n");
  const auto tooFew = opened(all_);
  EXPECT_EQ(tooFew->classes(), 2);
  EXPECT_EQ(readingErrorOf(*tooFew, 0), "fine");
  EXPECT_EQ(readingErrorOf(*tooFew, 1),
            file + ": record 1: image/class/label is 2; classes are from 0 to 1");
  for (const char* wrong :
       {"0:cat\ndog\n", "0:cat\n1\n", "0:cat\n-1:dog\n", "0:cat\n1000000:x\n"}) {
    folder_.write("labels.txt", wrong);
    EXPECT_THAT(refusal(all_), HasSubstr(labels + ":2: is to be NUMBER:NAME")) << wrong;
  }
  folder_.write("labels.txt", "");
  EXPECT_THAT(refusal(all_), HasSubstr(labels + ": the file is empty"));
}

// Contract: of one file every fifth record is for the test, and nothing is in both.
TEST_F(RecordImagesTest, SplitsOneFile) {
  const std::string name =
      "tfrecord:" + write("any", {grey(0), grey(1), grey(2), grey(3), grey(9), grey(5)});
  EXPECT_THAT(readAll(*opened(name))[1].as<std::int64_t>(), ElementsAre(0, 1, 2, 3, 5));
  EXPECT_THAT(readAll(*opened(name, Part::kTest))[1].as<std::int64_t>(), ElementsAre(9));
  EXPECT_EQ(opened(name)->classes(), 10);
  write("any", {grey(0)});
  EXPECT_THAT(refusal(name, Part::kTest), AllOf(HasSubstr("not found"), HasSubstr("too few")));
}

// Contract: what is wrong with a record names the file and the record, when the set is opened
// unless labels.txt makes it needless to read it all.
TEST_F(RecordImagesTest, NamesTheRecordThatIsWrong) {
  const std::string file = write("train.tfrecord", {grey(1), grey(2)});
  damage(file);
  EXPECT_THAT(refusal(all_), HasSubstr(file + ": record 1: its data is damaged (CRC)"));
  folder_.write("labels.txt", "2:cat\n");
  EXPECT_EQ(readingErrorOf(*opened(all_), 1), file + ": record 1: its data is damaged (CRC)");
  std::filesystem::remove(folder_.path() + "/labels.txt");

  const auto refusalOf = [&](const std::string& second) {
    write("train.tfrecord", {grey(1), second});
    return refusal(all_);
  };
  EXPECT_THAT(refusalOf("no message"), HasSubstr(file + ": record 1: is no tf.Example"));
  EXPECT_THAT(refusalOf(record("", -1)), HasSubstr("record 1: image/class/label is -1"));
  EXPECT_THAT(refusalOf(record("", 1'000'000)),
              HasSubstr("record 1: image/class/label is 1000000"));
  EXPECT_THAT(refusalOf(exampleOf({{"image/encoded", {.bytes = {"x"}}}})),
              HasSubstr("record 1: has no whole number image/class/label"));
  EXPECT_THAT(refusalOf(exampleOf({{"image/class/label", {.bytes = {"cat"}}}})),
              HasSubstr("record 1: has no whole number image/class/label"));

  write("train.tfrecord", {grey(1), record("no image", 1)});
  EXPECT_EQ(readingErrorOf(*opened(all_), 1),
            file + ": record 1: image/encoded: this is neither a JPEG nor a PNG image");
  write("train.tfrecord", {record("no image", 1)});  // The first shows early.
  EXPECT_THAT(refusal(all_), HasSubstr("record 0: image/encoded: this is neither"));
  write("train.tfrecord", {grey(1)});
  const std::string test = write("test.tfrecord", {grey(2)});
  EXPECT_THAT(refusal(all_, Part::kTest),
              HasSubstr(test + ": record 0: image/class/label is 2; classes are from 0 to 1"));
  write("test.tfrecord", {grey(0), grey(1), grey(2)});  // Whichever it is.
  EXPECT_THAT(refusal(all_, Part::kTest),
              HasSubstr(test + ": record 2: image/class/label is 2; classes are from 0 to 1"));
}

TEST_F(RecordImagesTest, SaysWhatIsMissing) {
  EXPECT_THAT(refusal(all_), AllOf(HasSubstr("not found"), HasSubstr("no file of the train part")));
  EXPECT_THAT(refusal(all_ + "/none"),
              HasSubstr("there is no file or folder " + folder_.path() + "/none"));
  EXPECT_THAT(refusal(all_, Part::kTrain, ofLength(4)), HasSubstr("no sequences"));
  write("test.tfrecord", {grey(2)});
  EXPECT_EQ(opened(all_, Part::kTest)->classes(), 3);  // A test part alone.
}

// Contract: a set may come in more files than a process may have open.
TEST_F(RecordImagesTest, HoldsNoFileOpen) {
  for (int i = 0; i < 100; ++i) write("train-" + std::to_string(i) + "-of-100", {grey(1)});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto train = openDataset(all_, Part::kTrain);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ((*train)->size(), 100);
}

}  // namespace
}  // namespace colla::data
