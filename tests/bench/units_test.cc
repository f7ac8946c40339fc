#include "bench/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colla::bench {
namespace {

using ::testing::HasSubstr;

TEST(ParseBytesTest, TakesPlainNumbersAndSuffixes) {
  EXPECT_EQ(*parseBytes("4"), 4U);
  EXPECT_EQ(*parseBytes("1000"), 1000U);
  EXPECT_EQ(*parseBytes("1K"), 1024U);
  EXPECT_EQ(*parseBytes("100M"), 100U << 20);
  EXPECT_EQ(*parseBytes("4G"), std::size_t{4} << 30);
}

TEST(ParseBytesTest, RefusesWhatIsNoSize) {
  for (const char* text : {"", "K", "4k", "4KB", "4M ", " 4M", "-4", "0x10", "1.5M", "1e6"}) {
    const auto parsed = parseBytes(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("is not a size")) << text;
  }
}

TEST(ParseBytesTest, RefusesWhatIsOutOfRange) {
  for (const char* text :
       {"0", "3", "0G", "5G", "4294967297", "18014398509481984K", "17179869184G"}) {
    EXPECT_FALSE(parseBytes(text).ok()) << text;
  }
}

TEST(TextTest, SizesAreExact) {
  EXPECT_EQ(bytesText(4), "4");
  EXPECT_EQ(bytesText(1000), "1000");
  EXPECT_EQ(bytesText(1024), "1K");
  EXPECT_EQ(bytesText(1536), "1536");
  EXPECT_EQ(bytesText(100 << 20), "100M");
  for (const char* text : {"12", "3K", "7M", "2G"}) EXPECT_EQ(bytesText(*parseBytes(text)), text);
}

TEST(TextTest, DurationsHaveThreeDigitsAndAUnit) {
  EXPECT_EQ(durationText(412e-9), "412 ns");
  EXPECT_EQ(durationText(1.3549e-6), "1.35 us");
  EXPECT_EQ(durationText(62.14e-3), "62.1 ms");
  EXPECT_EQ(durationText(2.5), "2.50 s");
  EXPECT_EQ(durationText(0.99996e-3), "1.00 ms");  // Not "1000 us".
}

TEST(TextTest, NumbersKeepWhatIsToBeRead) {
  EXPECT_EQ(numberText(0.00128), "0.0013");
  EXPECT_EQ(numberText(0.708), "0.71");
  EXPECT_EQ(numberText(9.999), "10.0");
  EXPECT_EQ(numberText(13.46), "13.5");
  EXPECT_EQ(numberText(99.96), "100");
  EXPECT_EQ(numberText(812.4), "812");
}

}  // namespace
}  // namespace colla::bench
