#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/samples.h"
#include "data/text/text_files.h"
#include "data/text/tokens.h"
#include "data/text/vocabulary.h"
#include "support/error_of.h"
#include "support/scratch.h"

namespace colla::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> wordsOf(std::string_view text) {
  std::vector<std::string> words;
  forEachWord(text, [&words](std::string_view word) { words.emplace_back(word); });
  return words;
}

TEST(TokensTest, MarksAroundWordsAreWords) {
  EXPECT_THAT(wordsOf(" A man,\triding  a horse. "),
              ElementsAre("A", "man", ",", "riding", "a", "horse", "."));
  EXPECT_THAT(wordsOf("(don't) \"x-ray\"!?"),
              ElementsAre("(", "don't", ")", "\"", "x-ray", "\"", "!", "?"));
  EXPECT_THAT(wordsOf("the <unk> of </s> <s>, <odd>"),
              ElementsAre("the", "<unk>", "of", "</s>", "<", "s", ">", ",", "<", "odd", ">"));
  EXPECT_THAT(wordsOf("na\xc3\xafve \xe2\x80\xa6 3.14 ..."),
              ElementsAre("na\xc3\xafve", "\xe2\x80\xa6", "3.14", ".", ".", "."));
  EXPECT_THAT(wordsOf(""), IsEmpty());
  EXPECT_THAT(wordsOf(" \t\r\n"), IsEmpty());
}

class TextTest : public ::testing::Test {
 protected:
  Scratch folder_;
  const std::string special_ = "<pad>\n<s>\n</s>\n<unk>\n";
};

TEST_F(TextTest, VocabulariesAreCheckedLineByLine) {
  const auto errorOf = [this](const std::string& contents) {
    return test::errorOf(Vocabulary::load(folder_.write("words.txt", contents)));
  };
  const std::string file = folder_.path() + "/words.txt";
  EXPECT_THAT(errorOf("the\n"), HasSubstr(file + ":1: is to be <pad>"));
  EXPECT_THAT(errorOf("<pad>\n<s>\n<unk>\n"), HasSubstr(file + ":3: is to be </s>"));
  EXPECT_THAT(errorOf("<pad>\n<s>\n"), HasSubstr(file + ": is to begin with <pad>, <s>, </s>"));
  EXPECT_THAT(errorOf(special_ + "a\nb\na\n"), HasSubstr(file + ":7: \"a\" stands in line 5"));
  EXPECT_THAT(errorOf(special_ + "a\n\nb\n"), HasSubstr(file + ":6: an empty line"));
  EXPECT_THAT(errorOf(special_ + "a b\n"), HasSubstr(file + ":5: white space"));
  const auto vocabulary = Vocabulary::load(folder_.write("words.txt", special_ + "a\r\nb"));
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  EXPECT_EQ(vocabulary->size(), 6);
  EXPECT_EQ(vocabulary->number("b"), 5);
  EXPECT_EQ(vocabulary->number("c"), 3);
  EXPECT_EQ(vocabulary->word(4), "a");
}

TEST_F(TextTest, CountsWordsTheFrequentOnesFirst) {
  const std::string file = folder_.write("book.txt", "b a c. b a,\nb <unk> d c\n");
  WordCounter counter;
  std::int64_t told = 0;
  ASSERT_TRUE(countWords(file, counter, [&](auto done, auto all) { told += done > all; }).ok());
  EXPECT_EQ(told, 0);
  EXPECT_EQ(counter.total(), 10);
  EXPECT_EQ(counter.different(), 6);
  EXPECT_THAT(counter.vocabulary({}),
              ElementsAre("<pad>", "<s>", "</s>", "<unk>", "b", "a", "c", ",", ".", "d"));
  EXPECT_THAT(counter.vocabulary({.words = 6}),
              ElementsAre("<pad>", "<s>", "</s>", "<unk>", "b", "a"));
  EXPECT_THAT(counter.vocabulary({.minCount = 3}),
              ElementsAre("<pad>", "<s>", "</s>", "<unk>", "b"));
  EXPECT_EQ(countWords(folder_.path() + "/none", counter, {}).code(), StatusCode::kNotFound);
}

TEST_F(TextTest, ReadsAFolder) {
  folder_.write("train.txt", "a b c\n\nx a\nb c a b\n");
  folder_.write("test.txt", "a a b b\n");
  folder_.write("vocab.txt", special_ + "a\nb\nc\n");
  const auto train = opened(folder_.path(), Part::kTrain, ofLength(4));
  EXPECT_EQ(train->describe(),
            "train part of " + folder_.path() +
                " (8.3 % of its words are not in the vocabulary): 2 samples of words int64 4, next "
                "int64 4 (7 classes)");
  const Batch batch = readAll(*train);
  EXPECT_THAT(batch[0].as<std::int64_t>(), ElementsAre(4, 5, 6, 2, 3, 4, 2, 5));
  EXPECT_THAT(batch[1].as<std::int64_t>(), ElementsAre(5, 6, 2, 3, 4, 2, 5, 6));
  EXPECT_EQ(train->symbols(), 7);
  EXPECT_EQ(opened("text:" + folder_.path(), Part::kTest, ofLength(2))->size(), 2);
  // Another vocabulary by name.
  const std::string other = folder_.write("other.voc", special_ + "b\n");
  EXPECT_EQ(opened(folder_.path(), Part::kTrain, withWords(other, 4))->classes(), 5);
}

// Contract: of one file the lines that begin in the last tenth are for the test, none for both.
TEST_F(TextTest, CutsOneFile) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += i < 90 ? "a b\n" : "c c\n";
  const std::string file = folder_.write("book.txt", text);
  folder_.write("vocab.txt", special_ + "a\nb\nc\n");
  const Batch train = readAll(*opened("text:" + file, Part::kTrain, ofLength(1)));
  const Batch test = readAll(*opened("text:" + file, Part::kTest, ofLength(1)));
  EXPECT_EQ(train[0].rows(), 90 * 3 - 1);
  EXPECT_EQ(test[0].rows(), 10 * 3 - 1);
  EXPECT_EQ(std::ranges::count(train[0].as<std::int64_t>(), 6), 0);
  EXPECT_EQ(std::ranges::count(test[0].as<std::int64_t>(), 4), 0);
}

// Contract: a text in one line (as text8 is) is for training, and has no test part: that is no
// error.
TEST_F(TextTest, OneLongLineHasNoTestPart) {
  const std::string file = folder_.write("book.txt", "a b a b a b a b a b a b\n");
  folder_.write("vocab.txt", special_ + "a\nb\n");
  EXPECT_EQ(opened("text:" + file, Part::kTrain, ofLength(4))->size(), 3);
  const auto test = openDataset("text:" + file, Part::kTest, ofLength(4));
  EXPECT_EQ(test.status().code(), StatusCode::kNotFound) << test.status();
  EXPECT_THAT(toString(test.status()),
              AllOf(HasSubstr(file), HasSubstr("begin in its last tenth have 0 words"),
                    HasSubstr("one sample takes 4")));
  // A folder says itself what is for the test.
  folder_.write("train.txt", "a b a b a b\n");
  folder_.write("test.txt", "a\n");
  EXPECT_EQ(openDataset(folder_.path(), Part::kTest, ofLength(4)).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(TextTest, SaysWhatIsMissing) {
  EXPECT_THAT(refusal("text:" + folder_.path()),
              AllOf(HasSubstr("not found"), HasSubstr("no .txt file with \"train\"")));
  EXPECT_THAT(refusal("text:" + folder_.path() + "/none.txt"), HasSubstr("none.txt"));
  const std::string file = folder_.write("train.txt", "a b\n");
  EXPECT_THAT(refusal("text:" + file), AllOf(HasSubstr("has no vocabulary"),
                                             HasSubstr("colla data vocab " + file + " --out " +
                                                       folder_.path() + "/vocab.txt")));
  EXPECT_THAT(refusal("text:" + file, Part::kTrain, withWords("/none")), HasSubstr("/none"));
  folder_.write("vocab.txt", special_ + "a\n");
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("3 words are too few; one sample takes 20"));
  folder_.write("train.txt", "\n");
  EXPECT_THAT(refusal(folder_.path()), HasSubstr("0 words are too few"));
  folder_.write("train.txt", "");
  EXPECT_THAT(refusal(folder_.path()), HasSubstr(file + ": the file is empty"));
  // Among several, too.
  folder_.write("train2.txt", std::string(100, 'a') + std::string(50, '\n'));
  EXPECT_THAT(refusal(folder_.path(), Part::kTrain, ofLength(1)),
              HasSubstr(file + ": the file is empty"));
  WordCounter counter;
  EXPECT_THAT(toString(countWords(folder_.path(), counter, {})),
              HasSubstr(file + ": the file is empty"));
}

}  // namespace
}  // namespace colla::data
