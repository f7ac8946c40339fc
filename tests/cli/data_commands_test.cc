// `colla data` as users call it: what it prints, where, and exit codes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/files.h"
#include "data/pickles.h"
#include "data/pictures.h"
#include "data/record/example.h"
#include "data/record/record_file.h"
#include "support/colla_test.h"

namespace colla::cli {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class DataCommandsTest : public CollaTest {
 protected:
  std::string textOf(const std::string& name) const { return readText(path(name)); }
};

TEST_F(DataCommandsTest, InfoTellsWhatThereIs) {
  const Outcome outcome = colla("data info synthetic:cifar10:60 --size 40x20");
  EXPECT_EQ(outcome.exitCode, 0) << outcome.error;
  EXPECT_THAT(
      outcome.out,
      AllOf(StartsWith("synthetic:cifar10, train part: 60 samples of image float32 3x40x20, "
                       "label int64 (10 classes)\n"),
            HasSubstr("synthetic:cifar10, test part: 10 samples"),
            HasSubstr("\nfield  type     shape    smallest  largest")));
  EXPECT_THAT(outcome.error, IsEmpty());
}

TEST_F(DataCommandsTest, InfoAsJson) {
  scratch_.write("train.tsv", "0\tACD\n2\tWWWW\n");
  const Outcome outcome = colla("data info proteins:. --length 4 --json --speed");
  ASSERT_EQ(outcome.exitCode, 0) << outcome.error;
  const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
  EXPECT_EQ(json["train"]["samples"], 2);
  EXPECT_EQ(json["train"]["classes"], 3);
  EXPECT_EQ(json["train"]["symbols"], 25);
  EXPECT_EQ(json["train"]["fields"][0]["name"], "sequence");
  EXPECT_EQ(json["train"]["fields"][0]["shape"][0], 4);
  EXPECT_EQ(json["train"]["fields"][0]["largest"], 19);  // W
  EXPECT_EQ(json["train"]["fields"][1]["mean"], 1);
  EXPECT_GT(json["train"]["samples_per_second"], 0);
  EXPECT_TRUE(json["test"].is_null());
}

// Contract: files of each kind, as they come, are told by name or found out, with both parts.
TEST_F(DataCommandsTest, InfoTellsWhatIsInFiles) {
  const auto add = [this](const std::string& name, const std::string& contents) {
    std::filesystem::create_directories(
        (std::filesystem::path(scratch_.path()) / name).parent_path());
    scratch_.write(name, contents);
  };
  struct Expected {
    int train;
    int test;
    int classes;
    std::vector<std::int64_t> shape;  // Of the first field; -1 varies.
    double largest;                   // In the first field of the training part.
    double meanLabel;
  };
  const auto check = [this](const std::string& name, const Expected& expected) {
    const Outcome outcome = colla("data info " + name + " --json");
    ASSERT_EQ(outcome.exitCode, 0) << name << "\n" << outcome.error;
    const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
    const auto& train = json["train"];
    EXPECT_EQ(train["samples"], expected.train) << name;
    EXPECT_EQ(json["test"]["samples"], expected.test) << name;
    for (const char* part : {"train", "test"}) {
      EXPECT_EQ(json[part]["classes"], expected.classes) << name;
      EXPECT_EQ(json[part]["fields"][0]["shape"], expected.shape) << name;
      EXPECT_EQ(json[part]["fields"].back()["name"], "label") << name;
    }
    EXPECT_NEAR(train["fields"][0]["largest"].get<double>(), expected.largest, 1e-6) << name;
    EXPECT_NEAR(train["fields"].back()["mean"].get<double>(), expected.meanLabel, 1e-6) << name;
    const Outcome told = colla("data info " + name);
    EXPECT_EQ(told.exitCode, 0) << name;
    EXPECT_THAT(told.out, AllOf(HasSubstr(fmt::format(": {} samples of ", expected.train)),
                                HasSubstr(fmt::format(": {} samples of ", expected.test)),
                                HasSubstr(fmt::format("({} classes)", expected.classes))));
  };

  constexpr int kPixels = 3 * 32 * 32;
  const std::string dark(kPixels, 51);
  const std::string light(kPixels, static_cast<char>(204));
  add("cifar/data_batch_1.bin", '\x03' + dark + '\x09' + light);
  add("cifar/data_batch_2.bin", '\x06' + dark);
  add("cifar/test_batch.bin", '\x01' + dark);
  const Expected cifar = {3, 1, 10, {3, 32, 32}, 0.8, 6};
  check("cifar", cifar);
  check("cifar10:cifar", cifar);

  const auto batchOf = [](const std::vector<int>& labels, const std::string& images) {
    return data::pickleOf(
        {{"labels", data::pickledList(labels)},
         {"data", data::pickledArray(static_cast<int>(labels.size()), kPixels, images)}});
  };
  add("pickled/data_batch_1", batchOf({3, 9}, dark + light));
  add("pickled/data_batch_2", batchOf({6}, dark));
  add("pickled/test_batch", batchOf({1}, light));
  check("pickled", cifar);
  check("cifar10:pickled", cifar);

  add("mnist/train-images-idx3-ubyte", data::idx({2, 2, 3}, std::string(12, 102)));
  add("mnist/train-labels-idx1-ubyte", data::idx({2}, "\x03\x04"));
  add("mnist/t10k-images-idx3-ubyte.gz", data::gzip(data::idx({1, 2, 3}, dark.substr(0, 6))));
  add("mnist/t10k-labels-idx1-ubyte.gz", data::gzip(data::idx({1}, "\x09")));
  check("mnist", {2, 1, 10, {1, 2, 3}, 0.4, 3.5});
  check("mnist:mnist", {2, 1, 10, {1, 2, 3}, 0.4, 3.5});

  add("heart", "+1 1:0.5 7:2\n-1 3:1\n-1\n+1 2:1\n");
  add("heart.t", "-1 5:1\n+1 9:1\n");
  check("libsvm:heart", {4, 2, 2, {-1}, 6, 0.5});
  // Of one file, every fifth is for the test.
  add("one", "3 1:1\n3 1:1\n5 1:1\n5 1:1\n3 1:1\n5 4:1\n");
  check("libsvm:one", {5, 1, 2, {-1}, 3, 0.6});

  const auto recordsOf = [](const std::string& path, const std::vector<int>& labels) {
    auto writer = data::RecordWriter::create(path);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const int label : labels) {
      const std::string example = data::exampleOf(
          {{"image/encoded", {.bytes = {data::pngOf(data::plain({4, 5}, 153, 0, 0))}}},
           {"image/class/label", {.integers = {label}}}});
      ASSERT_TRUE(writer->append(std::as_bytes(std::span(example))).ok());
    }
    ASSERT_TRUE(writer->close().ok());
  };
  std::filesystem::create_directory(scratch_.path() + "/records");
  recordsOf(scratch_.path() + "/records/train-00000-of-00001", {0, 2, 1, 1});
  recordsOf(scratch_.path() + "/records/validation-00000-of-00001", {2, 0});
  check("tfrecord:records", {4, 2, 3, {3, 4, 5}, 0.6, 1});

  for (const char* name :
       {"train/cat/1.png", "train/dog/1.png", "train/dog/2.png", "val/cat/1.png"}) {
    add("pictures/" + std::string(name), data::pngOf(data::plain({6, 7}, 204, 0, 0)));
  }
  check("pictures", {3, 1, 2, {3, 6, 7}, 0.8, 2.0 / 3});
  check("images:pictures", {3, 1, 2, {3, 6, 7}, 0.8, 2.0 / 3});
}

// Contract: one line on standard error; 2 for usage, 1 for what is wrong with the data.
TEST_F(DataCommandsTest, ErrorsAreOneLine) {
  const auto check = [this](const std::string& arguments, int exitCode, const std::string& text) {
    const Outcome outcome = colla(arguments);
    EXPECT_EQ(outcome.exitCode, exitCode) << arguments;
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.error, AllOf(HasSubstr(text), EndsWith("\n")));
    EXPECT_EQ(std::ranges::count(outcome.error, '\n'), 1) << outcome.error;
  };
  check("data", 2, "no command given");
  check("data nothing", 2, "there is no command \"nothing\"");
  check("data info", 2, "NAME is required");
  check("data info synthetic:mnist:60 --size big", 2, "--size is big");
  check("data info nothing", 1, "\"nothing\" is neither a data set nor a folder");
  check("data info mnist:/absent", 1, "there is no folder /absent\n");
  check("data info text:absent", 1, "there is no file or folder absent\n");
  check("data info libsvm:absent", 1, "there is no file absent\n");
  check("data info /absent", 1, "there is no folder /absent\n");
  check("data info synthetic:lr:6x5 --size 8x8", 1, "has no images to scale to 8x8");
  scratch_.write("train.tsv", "0\tACD\nx\tACD\n");
  check("data info proteins:.", 1, "./train.tsv:2: \"x\" is no label");
  check("data vocab none.txt", 2, "--out is required");
  check("data vocab none.txt --out v.txt", 1, "cannot read none.txt: No such file");
  scratch_.write("empty.txt", "\n");
  check("data vocab empty.txt --out v.txt", 1, "empty.txt has no words");
  check("data vocab empty.txt --out v.txt --min-count 0", 2, "--min-count");
  std::filesystem::create_directory(scratch_.path() + "/texts");
  scratch_.write("texts/train1.txt", "a b\n");
  scratch_.write("texts/train2.txt", "");
  check("data vocab texts --out v.txt", 1, "texts/train2.txt: the file is empty");
  scratch_.write("text.txt", "a b\n");
  check("data vocab text.txt --out none/v.txt", 1, "cannot write none/v.txt");
  check("data captions --images . --out o", 2, "--annotations is required");
  check("data captions --images . --out o --annotations a.json --test-share 2", 2, "--test-share");
  check("data captions --images . --out o --annotations a.json", 1, "cannot read a.json");
}

TEST_F(DataCommandsTest, VocabMakesWhatTextNeeds) {
  scratch_.write("train.txt", "the cat sat on the mat .\nthe cat , the dog\n");
  scratch_.write("test.txt", "the dog sat on the sofa\n");
  const Outcome outcome = colla("data vocab . --out vocab.txt --words 7 --min-count 2");
  EXPECT_EQ(outcome.exitCode, 0) << outcome.error;
  EXPECT_EQ(outcome.out, "vocab.txt: 6 words; the text has 12, of which 8 are different\n");
  EXPECT_EQ(textOf("vocab.txt"), "<pad>\n<s>\n</s>\n<unk>\nthe\ncat\n");
  const Outcome info = colla("data info . --length 3");
  EXPECT_EQ(info.exitCode, 0) << info.error;
  EXPECT_THAT(info.out, AllOf(HasSubstr("train part of . (42.9 % of its words are not in the "
                                        "vocabulary): 4 samples of words int64 3"),
                              HasSubstr("(6 classes)")));
}

TEST_F(DataCommandsTest, CaptionsMakesADataSet) {
  std::filesystem::create_directory(scratch_.path() + "/images");
  for (const char* name : {"a", "b", "c"}) {
    scratch_.write("images/" + std::string(name) + ".jpg",
                   data::jpegOf(data::plain({8, 8}, 10, 20, 30)));
  }
  scratch_.write("notes.json", R"({"images": [{"id": 1, "file_name": "a.jpg"},
      {"id": 2, "file_name": "b.jpg"}, {"id": 3, "file_name": "c.jpg"}], "annotations": [
      {"image_id": 1, "caption": "A dog."}, {"image_id": 2, "caption": "A dog?"}]})");
  const Outcome outcome = colla(
      "data captions --images images --annotations notes.json --out made --min-count 1 "
      "--test-share 0.5");
  EXPECT_EQ(outcome.exitCode, 0) << outcome.error;
  EXPECT_EQ(outcome.out,
            "made: 1 images to train with, 1 to test with, 2 captions, 7 words\n"
            "1 images have no caption and were left out\n");
  EXPECT_THAT(outcome.error, IsEmpty());
  const Outcome info = colla("data info made --size 4");
  EXPECT_THAT(info.out, HasSubstr("test part of made: 1 samples of image float32 3x4x4, caption "
                                  "int64 ?, length int64 (7 classes)"));
}

TEST_F(DataCommandsTest, HelpTellsWhatThereIs) {
  const Outcome help = colla("data --help");
  EXPECT_EQ(help.exitCode, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("info"), HasSubstr("vocab"), HasSubstr("captions")));
  for (const char* command : {"info", "vocab", "captions"}) {
    EXPECT_EQ(colla("data " + std::string(command) + " --help").exitCode, 0);
  }
  EXPECT_THAT(colla("--help").out, HasSubstr("data"));
}

}  // namespace
}  // namespace colla::cli
