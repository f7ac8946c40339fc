// From images and annotations to batches: makeCaptions() and openCaptions().
#include "data/record/captions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "data/pictures.h"
#include "data/record/example.h"
#include "data/record/make_captions.h"
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

class CaptionsTest : public ::testing::Test {
 protected:
  Scratch folder_;
  CaptionsPlan plan_;

  void SetUp() override {
    std::filesystem::create_directory(folder_.path() + "/images");
    // Four images of one grey each; the third has no caption.
    for (int i = 0; i < 4; ++i) {
      folder_.write("images/" + std::to_string(i) + ".png",
                    pngOf(plain({6, 8 + i}, 51 * i, 51 * i, 51 * i)));
    }
    plan_.images = folder_.path() + "/images";
    plan_.annotations = folder_.write("notes.json", R"({"images": [
        {"id": 0, "file_name": "0.png"}, {"id": 1, "file_name": "1.png"},
        {"id": 2, "file_name": "2.png"}, {"id": 3, "file_name": "3.png"}], "annotations": [
        {"image_id": 0, "caption": "A dog."}, {"image_id": 0, "caption": "The dog runs"},
        {"image_id": 1, "caption": "A  CAT, a dog"}, {"image_id": 2, "caption": " "},
        {"image_id": 3, "caption": "A lonely cow"}]})");
    plan_.out = folder_.path() + "/out";
    plan_.minCount = 1;
    plan_.testShare = 0.34;
  }
  std::string errorOf() { return test::errorOf(makeCaptions(plan_, {})); }
};

TEST_F(CaptionsTest, MakesAndReadsThem) {
  std::vector<std::int64_t> told;
  const auto made = makeCaptions(plan_, [&](std::int64_t done, std::int64_t all) {
    EXPECT_EQ(all, 3);
    told.push_back(done);
  });
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(told, ElementsAre(1, 2, 3));
  EXPECT_EQ(made->train, 2);
  EXPECT_EQ(made->test, 1);
  EXPECT_EQ(made->captions, 4);
  EXPECT_EQ(made->skipped, 1);
  EXPECT_EQ(readText(plan_.out + "/vocab.txt"),
            "<pad>\n<s>\n</s>\n<unk>\na\ndog\n,\n.\ncat\nruns\nthe\n");

  const auto test = opened(plan_.out, Part::kTest);  // By what is in it.
  EXPECT_THAT(test->words(), ElementsAre("<pad>", "<s>", "</s>", "<unk>", "a", "dog", ",", ".",
                                         "cat", "runs", "the"));
  EXPECT_EQ(test->describe(), "test part of " + plan_.out +
                                  ": 1 samples of image float32 3x6x11, caption int64 ?, length "
                                  "int64 (11 classes)");
  const Batch last = readAll(*test);  // "a lonely cow"
  EXPECT_THAT(last[1].as<std::int64_t>(), ElementsAre(1, 4, 3, 3, 2));
  EXPECT_THAT(last[2].as<std::int64_t>(), ElementsAre(5));
  EXPECT_THAT(last[0].as<float>(), Each(0.6F));

  const auto train = opened("captions:" + plan_.out, Part::kTrain, sized(4, 4));
  EXPECT_FALSE(train->inMemory());
  const Batch batch = readSome(*train, {1, 0});
  EXPECT_THAT(batch[0].shape(), ElementsAre(2, 3, 4, 4));
  EXPECT_THAT(batch[0].as<float>().first(48), Each(FloatNear(0.2, 1e-6)));
  EXPECT_THAT(batch[1].as<std::int64_t>().first(7), ElementsAre(1, 4, 8, 6, 4, 5, 2));
  EXPECT_EQ(batch[2].as<std::int64_t>()[0], 7);
}

// Contract: training meets every caption of an image, by the slice's stream; tests meet the first.
TEST_F(CaptionsTest, ChoosesAmongSeveralCaptions) {
  plan_.testShare = 0;
  ASSERT_EQ(errorOf(), "fine");
  EXPECT_EQ(openDataset(plan_.out, Part::kTest).status().code(), StatusCode::kNotFound);
  const auto train = opened(plan_.out, Part::kTrain);
  std::set<std::int64_t> second;  // Words: "a" and "the".
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Batch batch = readSome(*train, {0}, seed);
    second.insert(batch[1].as<std::int64_t>()[1]);
    const Batch again = readSome(*train, {0}, seed);
    EXPECT_TRUE(std::ranges::equal(batch[1].bytes(), again[1].bytes()));
  }
  EXPECT_EQ(second.size(), 2);
}

TEST_F(CaptionsTest, LimitsTheVocabularyOrTakesOne) {
  plan_.minCount = 2;
  const auto made = makeCaptions(plan_, {});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->words, 6);  // a, dog
  plan_.out += "2";
  plan_.vocabulary = folder_.write("mine.txt", "<pad>\n<s>\n</s>\n<unk>\ncow\n");
  ASSERT_EQ(errorOf(), "fine");
  EXPECT_THAT(readAll(*opened(plan_.out, Part::kTest))[1].as<std::int64_t>(),
              ElementsAre(1, 3, 3, 4, 2));
}

TEST_F(CaptionsTest, SaysWhatIsWrong) {
  plan_.testShare = 1;
  EXPECT_THAT(errorOf(), HasSubstr("from 0 to below 1"));
  plan_.testShare = 0;
  std::filesystem::remove(plan_.images + "/1.png");
  EXPECT_THAT(errorOf(), HasSubstr("cannot read " + plan_.images + "/1.png: No such file"));
  folder_.write("images/1.png", "no image");
  EXPECT_THAT(errorOf(), HasSubstr("1.png: this is neither a JPEG nor a PNG"));
  EXPECT_FALSE(std::filesystem::exists(plan_.out + "/train.tfrecord"));
  folder_.write("images/1.png", pngOf(plain({2, 2}, 1, 2, 3)));
  EXPECT_EQ(errorOf(), "fine");
  EXPECT_THAT(errorOf(), HasSubstr("out/train.tfrecord is there already"));
  plan_.annotations = folder_.write("notes.json", R"({"images": [], "annotations": []})");
  EXPECT_THAT(errorOf(), HasSubstr("notes.json: no image has a caption"));
}

TEST_F(CaptionsTest, NamesTheRecordThatIsWrong) {
  plan_.testShare = 0;
  ASSERT_EQ(errorOf(), "fine");
  const std::string file = plan_.out + "/train.tfrecord";
  const auto rewrite = [&](const std::string& record) {
    auto writer = *RecordWriter::create(file);
    EXPECT_TRUE(writer.append(std::as_bytes(std::span(record))).ok());
    EXPECT_TRUE(writer.close().ok());
  };
  rewrite("no example");
  EXPECT_THAT(refusal(plan_.out), HasSubstr(file + ": record 0: is no tf.Example"));
  rewrite(exampleOf({{"image/encoded", {.bytes = {"GIF89a"}}}}));
  EXPECT_THAT(refusal(plan_.out), HasSubstr("record 0: image/encoded: this is neither a JPEG"));
  const std::string image = pngOf(plain({2, 2}, 0, 0, 0));
  rewrite(exampleOf({{"image/encoded", {.bytes = {image}}}}));
  EXPECT_THAT(refusal(plan_.out), HasSubstr("record 0: has no image/captions"));
  rewrite(exampleOf({{"image/encoded", {.bytes = {image}}}, {"image/captions", {.bytes = {"a"}}}}));
  EXPECT_EQ(opened(plan_.out)->size(), 1);
  std::filesystem::remove(plan_.out + "/vocab.txt");
  EXPECT_THAT(refusal(plan_.out), AllOf(HasSubstr("has no vocabulary"), HasSubstr("vocab.txt")));
}

}  // namespace
}  // namespace colla::data
