#include "bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/network.h"

namespace colla::bench {
namespace {

using ::testing::HasSubstr;

TEST(ReportTest, RatiosCompareRatesAtTheSamePoint) {
  const Records records = {{{"system", "colla"}, {"bytes", 4 << 20}, {"seconds", 100e-6}},
                           {{"system", "gloo"}, {"bytes", 4 << 20}, {"seconds", 6e-3}},
                           {{"system", "bare"}, {"bytes", 4 << 20}, {"seconds", 80e-6}},
                           {{"system", "gloo"}, {"bytes", 0}, {"seconds", 1e-3}},
                           {{"system", "reader"}, {"seconds", 1.0}}};
  const Ratios ratios{
      {"colla"},
      [](const Record& record) { return 1 / record["seconds"].get<double>(); },
      [](const Record& record) { return std::to_string(record.value("bytes", -1)); }};
  EXPECT_EQ(table(records,
                  {textColumn("system", "system"), numberColumn("bytes", "bytes", bytesText),
                   numberColumn("time", "seconds", durationText)},
                  ratios),
            "system  bytes     time  colla/it\n"
            "colla      4M   100 us\n"
            "gloo       4M  6.00 ms     60.0x\n"
            "bare       4M  80.0 us     0.80x\n"
            "gloo        -  1.00 ms\n"
            "reader          1.00 s\n");
  EXPECT_EQ(nlohmann::json::parse(json(records)).size(), 5U);
  EXPECT_EQ(json({}), "[]\n");
}

TEST(ReportTest, ParsesSizes) {
  EXPECT_EQ(*parseBytes("4"), 4U);
  EXPECT_EQ(*parseBytes("1K"), 1024U);
  EXPECT_EQ(*parseBytes("100M"), 100U << 20);
  EXPECT_EQ(*parseBytes("4G"), std::size_t{4} << 30);
  for (const char* text : {"", "K", "4k", "4KB", "4M ", " 4M", "-4", "0x10", "1.5M", "1e6"}) {
    const auto parsed = parseBytes(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("is not a size")) << text;
  }
  for (const char* text :
       {"0", "3", "0G", "5G", "4294967297", "18014398509481984K", "17179869184G"}) {
    EXPECT_FALSE(parseBytes(text).ok()) << text;
  }
}

TEST(ReportTest, NumbersHaveThreeDigitsAtMost) {
  EXPECT_EQ(bytesText(1536), "1536");
  EXPECT_EQ(bytesText(100 << 20), "100M");
  EXPECT_EQ(durationText(412e-9), "412 ns");
  EXPECT_EQ(durationText(-62.14e-3), "-62.1 ms");
  EXPECT_EQ(durationText(0.99996e-3), "1.00 ms");  // Not "1000 us".
  EXPECT_EQ(numberText(0.00128), "0.0013");
  EXPECT_EQ(numberText(9.999), "10.0");
  EXPECT_EQ(numberText(812.4), "812");
  EXPECT_EQ(megabytesText(90'500'000), "90.5");
  EXPECT_EQ(percentText(0.25), "25 %");
}

TEST(LinkBytesTest, AreReadFromTheKernelsTable) {
  const std::string text =
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
      "    lo:     100       1    0    0    0     0          0         0      200       1    0\n"
      "  eth0:    3000       7    0    0    0     0          0         0 40000000      9    0\n";
  const auto bytes = parseLinkBytes(text, "eth0");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->received, 3000U);
  EXPECT_EQ(bytes->sent, 40'000'000U);
  EXPECT_FALSE(parseLinkBytes(text, "eth").ok());
  EXPECT_FALSE(parseLinkBytes("", "eth0").ok());
}

}  // namespace
}  // namespace colla::bench
