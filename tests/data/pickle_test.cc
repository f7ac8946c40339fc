#include "data/image/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/pickles.h"
#include "support/error_of.h"

namespace colla::data {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Kind = PickleValue::Kind;

Result<Pickle> parse(const std::string& file) {
  return Pickle::parse(std::as_bytes(std::span(file)), "file");
}
std::string pickleErrorOf(const std::string& file) { return test::errorOf(parse(file)); }

TEST(PickleTest, ReadsWhatPython2Wrote) {
  const std::string file = pickleOf({{"batch_label", pickledText("training batch 1 of 5")},
                                     {"labels", pickledList({6, 9, 300})},
                                     {"data", pickledArray(2, 3, "abcdef")}});
  const auto pickle = parse(file);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(pickle->find("batch_label")->text, "training batch 1 of 5");
  EXPECT_EQ(pickle->find("none"), nullptr);
  std::vector<std::int64_t> labels;
  for (const PickleValue* label : pickle->find("labels")->items) labels.push_back(label->integer);
  EXPECT_THAT(labels, ElementsAre(6, 9, 300));
  const auto array = arrayOf(*pickle->find("data"));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(array->shape, ElementsAre(2, 3));
  EXPECT_EQ(array->bytes.size(), 6);
  EXPECT_EQ(array->bytes.front(), std::byte{'a'});
}

// What numpy 2 wrote with Python 3: protocols 3 and 4 of {b"data": [[0, 1], [2, 3]], b"labels": …}.
TEST(PickleTest, ReadsWhatPython3Writes) {
  const std::string third =
      "\x80\x03}q\x00(C\x04"s
      "dataq\x01"s
      "cnumpy._core.multiarray\n_reconstruct\nq\x02"
      "cnumpy\nndarray\nq\x03K\x00\x85q\x04"s
      "C\x01"s
      "bq\x05\x87q\x06Rq\x07(K\x01K\x02K\x02\x86q\x08"s
      "cnumpy\ndtype\nq\tX\x02\x00\x00\x00u1q\n\x89\x88\x87q\x0bRq\x0c(K\x03X\x01\x00\x00\x00|q\rNNN"s
      "J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x0e"s
      "b\x89"s
      "C\x04\x00\x01\x02\x03q\x0ftq\x10"s
      "bC\x06labelsq\x11]q\x12(K\x01K\x02"s
      "eu."s;
  const std::string fourth =
      "\x80\x04\x95\xab\x00\x00\x00\x00\x00\x00\x00}\x94(C\x04"s
      "data\x94\x8c\x16numpy._core.multiarray"s
      "\x94\x8c\x0c_reconstruct\x94\x93\x94\x8c\x05numpy\x94\x8c\x07ndarray\x94\x93\x94K\x00\x85\x94"s
      "C\x01"s
      "b\x94\x87\x94R\x94(K\x01K\x02K\x02\x86\x94h\x05\x8c\x05"s
      "dtype\x94\x93\x94\x8c\x02u1"s
      "\x94\x89\x88\x87\x94R\x94(K\x03\x8c\x01|\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94"s
      "b\x89"s
      "C\x04\x00\x01\x02\x03\x94t\x94"s
      "bC\x06labels\x94]\x94(K\x01K\x02"s
      "eu."s;
  for (const std::string& file : {third, fourth}) {
    const auto pickle = parse(file);
    ASSERT_TRUE(pickle.ok()) << pickle.status();
    ASSERT_NE(pickle->find("data"), nullptr);
    const auto array = arrayOf(*pickle->find("data"));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_THAT(array->shape, ElementsAre(2, 2));
    EXPECT_THAT(array->bytes, ElementsAre(std::byte{0}, std::byte{1}, std::byte{2}, std::byte{3}));
    EXPECT_EQ(pickle->find("labels")->items.size(), 2);
  }
}

// Contract: nothing is called, and what would have been is named.
TEST(PickleTest, RefusesFunctionsByName) {
  EXPECT_THAT(pickleErrorOf("\x80\x02"s
                            "cos\nsystem\n(U\x02lstR."),
              AllOf(HasSubstr("file: byte 13: "), HasSubstr("wants to call os.system")));
  EXPECT_THAT(pickleErrorOf("\x80\x04\x8c\x08"s
                            "builtins\x8c\x04"s
                            "eval\x93."s),
              HasSubstr("wants to call builtins.eval"));
  EXPECT_THAT(pickleErrorOf("\x80\x02"s
                            "i."),
              HasSubstr("instruction 0x69"));                                   // INST calls, too.
  EXPECT_THAT(pickleErrorOf("\x80\x02\x81."s), HasSubstr("instruction 0x81"));  // NEWOBJ as well.
}

TEST(PickleTest, RefusesDamage) {
  EXPECT_THAT(pickleErrorOf(""), HasSubstr("not a pickle"));
  EXPECT_THAT(pickleErrorOf("(lp0\n."), HasSubstr("not a pickle"));
  EXPECT_THAT(pickleErrorOf("\x80\x09."s), HasSubstr("protocol 9"));
  const std::string whole =
      pickleOf({{"data", pickledArray(1, 3, "abc")}, {"l", pickledList({1})}});
  ASSERT_EQ(pickleErrorOf(whole), "fine");
  for (std::size_t size = 2; size < whole.size(); ++size) {
    EXPECT_THAT(pickleErrorOf(whole.substr(0, size)), HasSubstr("ends in the middle")) << size;
  }
  EXPECT_THAT(pickleErrorOf("\x80\x02T\xff\xff\xff\x7f"s
                            "abc."),
              HasSubstr("ends in the middle"));
  for (const char* bad : {"a.", "s.", "e.", "u.", "t.", "\x85.", "\x87.", "R.", "b.", "q\1.", "]a.",
                          "(u.", "}(K\1u.", "(.", ".", "NN.", "h\7.", "K\1K\2R.", "](](a."}) {
    EXPECT_THAT(pickleErrorOf("\x80\x02"s + bad), Not(HasSubstr("fine"))) << bad;
  }
}

TEST(PickleTest, AValueThatHoldsItselfIsNoTrouble) {
  const auto pickle = parse(
      "\x80\x02]q\x01h\x01"s
      "a.");
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(pickle->find("data"), nullptr);
}

TEST(PickleTest, LimitsWhatItMakes) {
  EXPECT_THAT(pickleErrorOf("\x80\x02"s + std::string(Pickle::kMaxValues + 1, ']') + "."),
              HasSubstr("more than 1048576 values"));
}

TEST(PickleTest, RefusesOtherArrays) {
  const auto errorOfArray = [](const std::string& value) {
    const std::string file = pickleOf({{"data", value}});
    const auto pickle = parse(file);
    EXPECT_TRUE(pickle.ok()) << pickle.status();
    return test::errorOf(arrayOf(*pickle->find("data")));
  };
  EXPECT_THAT(errorOfArray(pickledText("abc")), HasSubstr("is not a numpy array"));
  EXPECT_THAT(errorOfArray(pickledArray(1, 3, "abc", "f4")), HasSubstr("unsigned bytes"));
  EXPECT_THAT(errorOfArray(pickledArray(2, 3, "abc")), HasSubstr("has 3 bytes, but a shape of 6"));
  EXPECT_THAT(errorOfArray(pickledArray(-1, -3, "abc")), HasSubstr("makes no sense"));
}

}  // namespace
}  // namespace colla::data
