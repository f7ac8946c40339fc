#include "data/sequence/proteins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/samples.h"
#include "data/sequence/letters.h"
#include "support/scratch.h"

namespace colla::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LettersTest, NumbersEveryLetter) {
  EXPECT_EQ(letterNumber('_'), 0);
  for (std::size_t i = 0; i < kAminoAcids.size(); ++i) {
    EXPECT_EQ(letterNumber(kAminoAcids[i]), i + 1);
  }
  EXPECT_EQ(letterNumber('A'), 1);
  EXPECT_EQ(letterNumber('Y'), 20);
  EXPECT_EQ(letterNumber('y'), 20);
  EXPECT_EQ(letterNumber('B'), 21);
  EXPECT_EQ(letterNumber('Z'), 22);
  EXPECT_EQ(letterNumber('J'), 23);
  for (const char letter : {'X', 'O', 'U', 'x', 'o', 'u'}) EXPECT_EQ(letterNumber(letter), 24);
  for (const char letter : {'*', '-', ' ', '1', '\0', '\xff', '\t'}) {
    EXPECT_EQ(letterNumber(letter), kNoLetter);
  }
}

class ProteinsTest : public ::testing::Test {
 protected:
  Scratch folder_;
  std::string errorOf(const std::string& contents) {
    return refusal("proteins:" + folder_.write("some.tsv", contents));
  }
};

TEST_F(ProteinsTest, ReadsLabelsAndSequences) {
  folder_.write("gpcr_train.tsv", "2\tACD\n0\tyW__\r\n\n0\tBZJXOU");
  folder_.write("gpcr_test.tsv", "4\tMM\n");
  folder_.write("gpcr_families.tsv", "0\tGO:0008527\t91\ttaste receptor activity\n");
  const auto train = opened(folder_.path(), Part::kTrain, ofLength(5));  // By what is in it.
  EXPECT_EQ(train->describe(), "train part of " + folder_.path() +
                                   ": 3 samples of sequence uint8 5, label int64 (5 classes)");
  EXPECT_EQ(train->symbols(), 25);
  const Batch batch = readAll(*train);
  EXPECT_THAT(batch[0].as<std::uint8_t>(),
              ElementsAre(1, 2, 3, 0, 0, 20, 19, 0, 0, 0, 21, 22, 23, 24, 24));
  EXPECT_THAT(batch[1].as<std::int64_t>(), ElementsAre(2, 0, 0));
  const auto test = opened("proteins:" + folder_.path(), Part::kTest);
  EXPECT_EQ(test->fields()[0].shape, std::vector<std::int64_t>{1000});
  EXPECT_EQ(test->classes(), 5);
}

TEST_F(ProteinsTest, ReadsFasta) {
  const std::string file = folder_.write("families.fasta",
                                         ">sp|P1|A_HUMAN|taste\nACD\nEF\n"
                                         ">P2 opsin\nGG\n"
                                         ">P3|taste\nH\n>P4|beta\nI\n>P5|opsin\nK\n");
  const auto train = opened("proteins:" + file, Part::kTrain, ofLength(6));
  const Batch batch = readAll(*train);
  EXPECT_EQ(train->classes(), 3);  // beta, opsin, taste
  EXPECT_THAT(batch[1].as<std::int64_t>(), ElementsAre(2, 1, 2, 0));
  EXPECT_THAT(batch[0].as<std::uint8_t>().first(12),
              ElementsAre(1, 2, 3, 4, 5, 0, 6, 6, 0, 0, 0, 0));
  const auto test = opened("proteins:" + file, Part::kTest, ofLength(6));
  EXPECT_EQ(test->classes(), 3);
  EXPECT_THAT(readAll(*test)[1].as<std::int64_t>(), ElementsAre(1));
  // Numbers stand for themselves.
  const std::string numbers = folder_.write("numbers.fa", ">a|7\nA\n>b 10\nC\n");
  EXPECT_THAT(readAll(*opened("proteins:" + numbers))[1].as<std::int64_t>(), ElementsAre(7, 10));
}

TEST_F(ProteinsTest, SkipsCommentsOfFasta) {
  for (const char* before : {"\n", " \r\n", "; made by hand\n\n"}) {
    const std::string file =
        folder_.write("some.fa", std::string(before) + ">a|1\nAC\n;cut here\n \nD\n>b|0\nE\n");
    const Batch batch = readAll(*opened("proteins:" + file, Part::kTrain, ofLength(4)));
    EXPECT_THAT(batch[0].as<std::uint8_t>(), ElementsAre(1, 2, 3, 0, 4, 0, 0, 0));
    EXPECT_THAT(batch[1].as<std::int64_t>(), ElementsAre(1, 0));
  }
}

// Contract: of one file, every fifth sequence is for the test, and nothing is in both.
TEST_F(ProteinsTest, SplitsOneFile) {
  std::string text;
  for (int i = 0; i < 12; ++i) text += std::to_string(i) + "\tACD\n";
  const std::string file = folder_.write("all.tsv", text);
  EXPECT_THAT(readAll(*opened("proteins:" + file))[1].as<std::int64_t>(),
              ElementsAre(0, 1, 2, 3, 5, 6, 7, 8, 10, 11));
  const auto test = opened("proteins:" + file, Part::kTest);
  EXPECT_THAT(readAll(*test)[1].as<std::int64_t>(), ElementsAre(4, 9));
  EXPECT_EQ(test->classes(), 12);
}

// Contract: what is wrong is told before training starts, with file and line.
TEST_F(ProteinsTest, NamesFileAndLine) {
  const std::string file = folder_.path() + "/some.tsv";
  EXPECT_THAT(errorOf("1\tAC\n2\tAC1D\n"),
              HasSubstr(file + ":2: '1' at letter 3 stands for no amino acid"));
  EXPECT_THAT(errorOf("1\tAC\xc3\xa4\n"), HasSubstr(file + ":1: 0xc3 at letter 3"));
  EXPECT_THAT(errorOf("1\tAC\n\n2\t\n"), HasSubstr(file + ":3: the sequence is empty"));
  EXPECT_THAT(errorOf("1\t____\n"), HasSubstr(file + ":1: the sequence is empty"));
  EXPECT_THAT(errorOf("x\tAC\n"), HasSubstr(file + ":1: \"x\" is no label"));
  for (const char* label : {"-1", "1.5", "100000", "", "99999999999999999999", " 1"}) {
    EXPECT_THAT(errorOf(std::string(label) + "\tAC\n"),
                HasSubstr("is no label; labels are whole numbers from 0 to 99999"));
  }
  EXPECT_THAT(errorOf("AC\n"), HasSubstr(file + ":1: no tab"));
  EXPECT_THAT(errorOf(""), HasSubstr(file + ": there are no sequences in it"));
  EXPECT_THAT(errorOf("\n\n"), HasSubstr(file + ": there are no sequences in it"));
  EXPECT_THAT(errorOf(">a|1\nAC\n>b\nAC\n"), HasSubstr(file + ":3: the header does not end with"));
  EXPECT_THAT(errorOf(">a|1\nAC\n>b|2\n"), HasSubstr(file + ":3: the sequence is empty"));
  EXPECT_THAT(errorOf(">a|1\nAC\nA?\n"), HasSubstr(file + ":3: '?' at letter 2"));
}

TEST_F(ProteinsTest, SaysWhatIsMissing) {
  EXPECT_THAT(refusal("proteins:" + folder_.path()),
              AllOf(HasSubstr("not found"), HasSubstr("\"train\" in its name")));
  EXPECT_THAT(refusal("proteins:" + folder_.path() + "/none.tsv"), HasSubstr("none.tsv"));
  const std::string file = folder_.write("few.tsv", "1\tAC\n");
  EXPECT_THAT(refusal("proteins:" + file, Part::kTest),
              AllOf(HasSubstr("not found"), HasSubstr("fewer than five")));
  EXPECT_THAT(refusal("proteins:" + file, Part::kTrain, sized(8, 8)), HasSubstr("has no images"));
}

}  // namespace
}  // namespace colla::data
