#include "transport/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace colla::transport {
namespace {

using ::testing::HasSubstr;
using Header = std::array<std::byte, kFrameBytes>;

constexpr std::uint32_t kEpoch = 3;

Frame dataFrame(std::uint32_t length) {
  Frame frame;
  frame.kind = FrameKind::kData;
  frame.epoch = kEpoch;
  frame.envelope = {1, 2, 3, {4, 5, 6, 7, 8, 9}};
  frame.total = length;
  frame.length = length;
  return frame;
}
Frame partFrame(std::uint64_t total, std::uint64_t offset, std::uint32_t length) {
  Frame frame = dataFrame(length);
  frame.kind = FrameKind::kPart;
  frame.total = total;
  frame.offset = offset;
  return frame;
}
Result<Frame> roundTrip(const Frame& frame, std::uint32_t epoch = kEpoch) {
  Header header;
  encode(frame, header);
  return decode(header, epoch);
}

TEST(FrameTest, ReadsBackWhatWasWritten) {
  const auto frame = roundTrip(partFrame(1 << 30, 1 << 29, 1 << 20));
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ(frame->kind, FrameKind::kPart);
  EXPECT_EQ(frame->envelope.group, 1U);
  EXPECT_EQ(frame->envelope.sequence, 2U);
  EXPECT_EQ(frame->envelope.step, 3U);
  EXPECT_EQ(frame->envelope.call, (Call{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(frame->total, std::uint64_t{1} << 30);
  EXPECT_EQ(frame->offset, std::uint64_t{1} << 29);
  EXPECT_EQ(frame->length, 1U << 20);
}

TEST(FrameTest, EveryLimitIsKept) {
  EXPECT_TRUE(roundTrip(dataFrame(0)).ok());
  EXPECT_TRUE(roundTrip(dataFrame(kEagerLimit)).ok());
  EXPECT_FALSE(roundTrip(dataFrame(kEagerLimit + 1)).ok());
  EXPECT_FALSE(roundTrip(dataFrame(0xffffffff)).ok());

  constexpr std::uint64_t kTotal = 10 << 20;
  EXPECT_TRUE(roundTrip(partFrame(kTotal, kTotal - 5, 5)).ok());
  EXPECT_FALSE(roundTrip(partFrame(kTotal, kTotal - 5, 6)).ok());
  EXPECT_FALSE(roundTrip(partFrame(kTotal, ~std::uint64_t{0} - 2, 6)).ok());  // Wraps around.
  EXPECT_FALSE(roundTrip(partFrame(kTotal, 0, kPartLimit + 1)).ok());
  EXPECT_FALSE(roundTrip(partFrame(kTotal, 0, 0)).ok());
  EXPECT_FALSE(roundTrip(partFrame(kEagerLimit, 0, 10)).ok());

  for (const FrameKind kind : {FrameKind::kAnnounce, FrameKind::kReady}) {
    Frame frame = dataFrame(0);
    frame.kind = kind;
    frame.total = kEagerLimit;
    EXPECT_FALSE(roundTrip(frame).ok());
    frame.total = kEagerLimit + 1;
    EXPECT_TRUE(roundTrip(frame).ok());
    frame.length = 1;
    EXPECT_FALSE(roundTrip(frame).ok());
  }
  Frame abort = dataFrame(kAbortLimit);
  abort.kind = FrameKind::kAbort;
  EXPECT_TRUE(roundTrip(abort).ok());
  abort.length = abort.total = kAbortLimit + 1;
  EXPECT_FALSE(roundTrip(abort).ok());
}

TEST(FrameTest, RefusesOtherEpochsKindsAndNoise) {
  EXPECT_THAT(std::string(roundTrip(dataFrame(1), 4).status().message()),
              HasSubstr("epoch 3, this is epoch 4"));
  Frame unknown = dataFrame(1);
  for (const int kind : {0, 7, 255}) {
    unknown.kind = static_cast<FrameKind>(kind);
    EXPECT_FALSE(roundTrip(unknown).ok()) << kind;
  }
  Header header;
  encode(dataFrame(1), header);
  for (const std::size_t byte : {0, 3, 5, 63}) {  // Magic, and what must be zero.
    Header bad = header;
    bad[byte] ^= std::byte{1};
    EXPECT_FALSE(decode(bad, kEpoch).ok()) << byte;
  }
}

TEST(FrameTest, AbortsKeepCodePeerAndText) {
  const Status why(StatusCode::kPeerLost, "rank 2 on host b is gone", 2);
  const auto back = decodeAbort(encodeAbort(why));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(toString(*back), toString(why));
  EXPECT_EQ(back->peer(), 2);
  EXPECT_LE(encodeAbort({StatusCode::kIo, std::string(1 << 20, 'x')}).size(), kAbortLimit);
}

TEST(FrameTest, AbortsWithoutAnErrorAreRefused) {
  EXPECT_FALSE(decodeAbort({}).has_value());
  EXPECT_FALSE(decodeAbort(encodeAbort(Status())).has_value());
  auto bytes = encodeAbort({StatusCode::kIo, "disk"});
  bytes[0] = std::byte{99};  // No such code.
  EXPECT_FALSE(decodeAbort(bytes).has_value());
  bytes = encodeAbort({StatusCode::kIo, "disk"});
  bytes.pop_back();
  EXPECT_FALSE(decodeAbort(bytes).has_value());
}

}  // namespace
}  // namespace colla::transport
