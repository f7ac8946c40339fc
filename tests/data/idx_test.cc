#include "data/image/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "data/files.h"

namespace colla::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Array> parse(const std::string& file, int dimensions) {
  return parseIdx(std::as_bytes(std::span(file)), "some-file", dimensions);
}

// Each error names the file.
std::string idxErrorOf(const std::string& file, int dimensions = 1) {
  const auto array = parse(file, dimensions);
  EXPECT_FALSE(array.ok());
  EXPECT_THAT(toString(array.status()), HasSubstr("some-file: "));
  return toString(array.status());
}

// Something that compresses neither to nothing nor not at all.
std::string bytes(std::size_t size) {
  std::string result(size, '\0');
  for (std::size_t i = 0; i < size; ++i) result[i] = static_cast<char>(i * i % 251 % 16);
  return result;
}

TEST(IdxTest, ReadsPlainAndCompressed) {
  const std::string elements = bytes(50 * 28 * 28);
  const std::string plain = idx({50, 28, 28}, elements);
  const std::string half = gzip(plain.substr(0, 1000));
  for (const std::string& file : {plain, gzip(plain), half + gzip(plain.substr(1000))}) {
    const auto array = parse(file, 3);
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_THAT(array->shape(), ElementsAre(50, 28, 28));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array->data()) % Array::kAlignment, 0);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(array->data()), array->bytes().size()),
              elements);
  }
}

// Far more than the compressed file: the memory has to grow several times.
TEST(IdxTest, ReadsWhatCompressesWell) {
  const auto array = parse(gzip(idx({1 << 20}, std::string(1 << 20, 'a'))), 1);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->rows(), 1 << 20);
  EXPECT_EQ(std::ranges::count(array->as<std::uint8_t>(), 'a'), 1 << 20);
}

TEST(IdxTest, NamesWhatIsWrongWithTheHeader) {
  EXPECT_THAT(idxErrorOf(""), HasSubstr("the file is empty"));
  EXPECT_THAT(idxErrorOf(gzip("")), HasSubstr("the file is empty"));
  EXPECT_THAT(idxErrorOf(idx({5}, "").substr(0, 3)), HasSubstr("inside of its header"));
  EXPECT_THAT(idxErrorOf(idx({5}, "").substr(0, 7)), HasSubstr("inside of its header"));
  EXPECT_THAT(idxErrorOf("<html>"), HasSubstr("not an IDX file: it starts with bytes 3c 68"));
  EXPECT_THAT(idxErrorOf(idx({5, 1}, "abcde")), HasSubstr("in 2 dimensions; expected"));
  std::string floats = idx({5}, "abcde");
  floats[2] = 0x0d;
  EXPECT_THAT(idxErrorOf(floats), HasSubstr("elements of type 0x0d"));
  EXPECT_THAT(idxErrorOf(idx({0}, "")), HasSubstr("it holds nothing: its header says 0 bytes"));
  EXPECT_THAT(idxErrorOf(idx({5, 0, 3}, ""), 3), HasSubstr("says 5x0x3 bytes"));
}

// Contract: a header that claims more than memory holds takes no memory.
TEST(IdxTest, NamesWhatIsWrongWithTheLength) {
  EXPECT_THAT(idxErrorOf(idx({5}, "abcd")),
              HasSubstr("truncated inside of record 4: its header says 5 bytes, but 4"));
  EXPECT_THAT(idxErrorOf(idx({3, 2, 2}, "abcdefg"), 3), HasSubstr("truncated inside of record 1:"));
  EXPECT_THAT(idxErrorOf(idx({5}, "abcdef")), HasSubstr("says 5 bytes, but more are there"));
  EXPECT_THAT(idxErrorOf(gzip(idx({5}, "abcd"))), HasSubstr("truncated"));
  EXPECT_THAT(idxErrorOf(gzip(idx({5}, "abcdef"))), HasSubstr("but more are there"));
  const std::string liar = idx({0xffffffff, 0xffff, 0x7fff}, "abcd");
  EXPECT_THAT(idxErrorOf(liar, 3), AllOf(HasSubstr("truncated"), HasSubstr("4 are there")));
  EXPECT_THAT(idxErrorOf(gzip(liar), 3), HasSubstr("truncated"));
  EXPECT_THAT(idxErrorOf(idx({0xffffffff, 0xffffffff, 0xffffffff}, ""), 3),
              HasSubstr("more than any file holds"));
}

TEST(IdxTest, NamesDamagedCompression) {
  const std::string plain = idx({5000}, bytes(5000));
  const std::string good = gzip(plain);
  for (const std::size_t length :
       {std::size_t{2}, std::size_t{15}, good.size() / 2, good.size() - 9, good.size() - 1}) {
    EXPECT_THAT(idxErrorOf(good.substr(0, length)), HasSubstr("ends too early")) << length;
  }
  const std::string images = gzip(idx({40, 5, 5}, bytes(40 * 5 * 5)));
  EXPECT_THAT(idxErrorOf(images.substr(0, images.size() / 2), 3),
              HasSubstr("the gzip stream ends too early inside of record "));
  std::string flipped = good;
  flipped[good.size() - 6] ^= 1;  // The checksum, behind all elements.
  EXPECT_THAT(idxErrorOf(flipped),
              HasSubstr("damaged (incorrect data check); fetch the file again"));
  EXPECT_THAT(idxErrorOf(good + "rubbish"), HasSubstr("damaged"));
}

}  // namespace
}  // namespace colla::data
