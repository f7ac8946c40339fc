#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/deadline.h"
#include "base/log.h"
#include "colla/status.h"

namespace colla {
namespace {

using namespace std::chrono_literals;

std::span<const std::byte> bytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(StatusTest, CarriesCodePeerAndContext) {
  const Status lost(StatusCode::kPeerLost, "rank 2 on host b is gone", 2);
  const Status status = lost.withContext("allreduce");

  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kPeerLost);
  EXPECT_EQ(status.peer(), 2);
  EXPECT_EQ(toString(status), "peer lost: allreduce: rank 2 on host b is gone");
  EXPECT_TRUE(Status().withContext("anything").ok());
}

TEST(StatusTest, TryLeavesWithTheFirstError) {
  const auto half = [](int value) -> Result<int> {
    if (value % 2 != 0) return {StatusCode::kInvalidArgument, "odd"};
    return value / 2;
  };
  const auto quarter = [&](int value) -> Result<int> {
    COLLA_TRY_ASSIGN(const int once, half(value));
    COLLA_TRY_ASSIGN(const int twice, half(once));
    return twice;
  };
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(6).status().message(), "odd");
}

// Time, level, and which rank on which host speaks.
TEST(LogTest, LinesSayWhoSpeaks) {
  log::setLevel(log::Level::kInfo);
  log::setSpeaker("rank 1 host a");
  ::testing::internal::CaptureStderr();
  log::warn("waiting for {}", "rank 3");
  log::debug("not this");
  log::setSpeaker("");
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      ::testing::MatchesRegex("[0-9][0-9]:[0-9][0-9]:[0-9][0-9]\\.[0-9][0-9][0-9] W rank 1 host a: "
                              "waiting for rank 3\n"));
}

// The check value of the Castagnoli polynomial, and the one of RFC 3720 for 32 zero bytes.
TEST(Crc32cTest, KnownValues) {
  EXPECT_EQ(crc32c(bytesOf("123456789")), 0xe3069283U);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8a9136aaU);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(Crc32cTest, PartsEqualTheWhole) {
  std::string text(1000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31);
  const std::uint32_t whole = crc32c(bytesOf(text));
  for (std::size_t cut : {0, 1, 7, 8, 9, 500, 999, 1000}) {
    EXPECT_EQ(crc32c(bytesOf(text.substr(cut)), crc32c(bytesOf(text.substr(0, cut)))), whole);
  }
}

TEST(BytesTest, ReadsBackWhatWasWritten) {
  ByteWriter writer;
  writer.number(std::uint8_t{7});
  writer.text("rank");
  writer.number(std::int64_t{-3});
  ByteReader reader(writer.bytes());
  EXPECT_EQ(reader.number<std::uint8_t>(), 7);
  EXPECT_EQ(reader.text(), "rank");
  EXPECT_FALSE(reader.done());
  EXPECT_EQ(reader.number<std::int64_t>(), -3);
  EXPECT_TRUE(reader.done());
}

TEST(BytesTest, NeverReadsPastTheEnd) {
  ByteWriter writer;
  writer.number(std::uint32_t{0xffffffff});  // A length that the rest does not have.
  ByteReader reader(writer.bytes());
  EXPECT_EQ(reader.text(), "");
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.number<std::uint8_t>(), 0);  // Bad stays bad.
  EXPECT_FALSE(reader.done());
}

TEST(DeadlineTest, RemainingIsLimitedAndNeverNegative) {
  EXPECT_EQ(Deadline::after(-1s).remaining(), 0ns);
  EXPECT_TRUE(Deadline::after(-1s).expired());
  EXPECT_EQ(Deadline::never().remaining(5ms), 5ms);
  EXPECT_FALSE(Deadline::never().expired());
  EXPECT_EQ(Deadline::after(std::chrono::nanoseconds::max()).when(), TimePoint::max());
  EXPECT_EQ(Deadline::never().earlier(Deadline::at(TimePoint(3s))).when(), TimePoint(3s));
}

}  // namespace
}  // namespace colla
