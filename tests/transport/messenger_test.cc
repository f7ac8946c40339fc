// What the messenger makes of a peer that breaks the rules; honest peers are in the conformance
// suite.
#include "transport/messenger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/metrics.h"
#include "transport/script_backend.h"
#include "transport/spin.h"

namespace colla::transport {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr std::uint32_t kPresent = 3;
constexpr std::size_t kLarge = 200'000;

class MessengerTest : public ::testing::Test {
 protected:
  static Options options() {
    Options options;
    options.self = 1;
    options.peers = {{"rank 0 on host a", ""}, {"rank 1 on host b", ""}};
    options.epoch = kPresent;
    return options;
  }
  static Frame frame(FrameKind kind, std::uint32_t sequence, std::uint64_t total,
                     std::uint64_t offset = 0, std::uint32_t length = 0) {
    return {kind, kPresent, {1, sequence, 0, {}}, total, offset, length};
  }
  void sayData(std::uint32_t sequence, const std::string& text) {
    const auto size = static_cast<std::uint32_t>(text.size());
    script_->say(frame(FrameKind::kData, sequence, size, 0, size), std::as_bytes(std::span(text)));
  }
  Status recv(std::uint32_t sequence, std::span<std::byte> data,
              std::chrono::milliseconds limit = 50ms) {
    Request request;
    messenger_.recv(0, {1, sequence, 0, {}}, data, request);
    Request* const requests[] = {&request};
    return messenger_.wait(requests, Deadline::after(limit));
  }
  // Posts a large receive, lets the peer answer, and waits.
  template <typename Say>
  Status recvLarge(std::span<std::byte> data, const Say& say) {
    Request request;
    messenger_.recv(0, {1, 1, 0, {}}, data, request);
    say();
    Request* const requests[] = {&request};
    return messenger_.wait(requests, Deadline::after(30s));
  }
  std::string recvText(std::uint32_t sequence, std::size_t size) {
    std::string text(size, ' ');
    const Status status = recv(sequence, std::as_writable_bytes(std::span(text)), 30s);
    return status.ok() ? text : toString(status);
  }
  // The peer is lost, and why.
  void expectLost(const std::string& why) {
    std::byte data{};
    const Status status = recv(999, {&data, 1}, 30s);
    EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status;
    EXPECT_EQ(status.peer(), 0);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 on host a is gone"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }

  std::shared_ptr<Script> script_ = std::make_shared<Script>();
  Messenger messenger_{options(), std::make_unique<ScriptBackend>(script_)};
};

TEST_F(MessengerTest, FramesMayArriveByteByByte) {
  script_->readLimit = 1;
  sayData(1, "first");
  sayData(2, "");
  sayData(3, "third");
  EXPECT_EQ(recvText(3, 5), "third");
  EXPECT_EQ(recvText(1, 5), "first");
  EXPECT_EQ(recvText(2, 0), "");
}

TEST_F(MessengerTest, PartsMayComeInAnyOrder) {
  const std::string text = std::string(kLarge / 2, 'a') + std::string(kLarge / 2, 'b');
  const auto bytes = std::as_bytes(std::span(text));
  std::vector<std::byte> data(kLarge);
  const Status status = recvLarge(data, [&] {
    for (const std::size_t offset : {kLarge / 2, std::size_t{0}}) {
      script_->say(frame(FrameKind::kPart, 1, kLarge, offset, kLarge / 2),
                   bytes.subspan(offset, kLarge / 2));
    }
  });
  EXPECT_EQ(toString(status), "ok");
  EXPECT_TRUE(std::ranges::equal(data, bytes));
}

double secondsWaited() {
  for (const metrics::Sample& sample : metrics::Registry::ofProcess().read()) {
    if (sample.family->name != "colla_wait_seconds_total") continue;
    if (sample.labels == std::vector<std::string>{"rank 0 on host a"}) return sample.value();
  }
  return 0;
}

TEST_F(MessengerTest, AWaitForAnyCountsForThePeer) {
  std::byte data{};
  Request first;
  Request second;
  messenger_.recv(0, {1, 1, 0, {}}, {&data, 1}, first);
  messenger_.recv(0, {1, 2, 0, {}}, {&data, 1}, second);
  Request* const both[] = {&first, &second};
  const double before = secondsWaited();
  EXPECT_FALSE(messenger_.waitAny(both, Deadline::after(20ms)));
  const double after = secondsWaited();
  EXPECT_GE(after - before, 0.020);
  {
    // One that waits for whatever comes next holds nobody up.
    const BackgroundThread background;
    EXPECT_FALSE(messenger_.waitAny(both, Deadline::after(20ms)));
  }
  EXPECT_EQ(secondsWaited(), after);
  sayData(2, "x");
  EXPECT_TRUE(messenger_.waitAny(both, Deadline::after(30s)));
  EXPECT_TRUE(second.done());
  static_cast<void>(messenger_.wait(both, Deadline::at(TimePoint::min())));
}

TEST_F(MessengerTest, NoiseLosesThePeer) {
  script_->says.assign(1000, std::byte{'x'});
  expectLost("not a frame of Colla");
}

TEST_F(MessengerTest, AnotherEpochLosesThePeer) {
  Frame other = frame(FrameKind::kData, 1, 0);
  other.epoch = kPresent + 1;
  script_->say(other);
  expectLost("epoch 4, this is epoch 3");
}

TEST_F(MessengerTest, PartsThatNobodyIsReadyForLoseThePeer) {
  script_->say(frame(FrameKind::kPart, 1, kLarge, 0, 10), std::vector<std::byte>(10));
  expectLost("nobody is ready for");
}

TEST_F(MessengerTest, MorePartsThanTheMessageHasLoseThePeer) {
  const std::vector<std::byte> half(kLarge / 2 + 1);
  std::vector<std::byte> data(kLarge);
  const Status status = recvLarge(data, [&] {
    for (int i = 0; i < 2; ++i) {
      script_->say(frame(FrameKind::kPart, 1, kLarge, 0, static_cast<std::uint32_t>(half.size())),
                   half);
    }
  });
  EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("twice"));
}

// There reading stops, and goes on as they are taken. Who waits for one that comes behind them gets
// it, and the end of the peer is not missed.
TEST_F(MessengerTest, MessagesThatNobodyAsksForAreLimited) {
  constexpr std::size_t kLimit = 256 << 20;
  constexpr std::size_t kSlack = 2 * kEagerLimit;  // A message, and what is read ahead.
  constexpr std::uint32_t kCount = kLimit / kEagerLimit + 64;
  script_->says.reserve(kCount * (kEagerLimit + kFrameBytes));
  for (std::uint32_t i = 0; i < kCount; ++i) sayData(i, std::string(kEagerLimit, 'x'));
  script_->ends = true;

  Request request;
  messenger_.send(0, {1, 0, 0, {}}, {}, request);
  const auto readAll = [&] {
    for (std::size_t before = ~std::size_t{0}; std::exchange(before, script_->heard) != before;) {
      EXPECT_EQ(toString(messenger_.aborted(2)), "ok");  // Looks for news.
    }
    return script_->heard;
  };
  const std::size_t held = readAll();
  EXPECT_GT(held, kLimit - kSlack - kCount * 128);  // Each costs some bytes of its own.
  EXPECT_LT(held, kLimit + kSlack);

  const std::string text(kEagerLimit, 'x');
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(recvText(i, kEagerLimit), text);
  const std::size_t more = readAll();
  EXPECT_GT(more, held + 8 * kEagerLimit);
  EXPECT_LT(more, held + 10 * kEagerLimit + kSlack);

  EXPECT_EQ(recvText(kCount - 1, kEagerLimit), text);
  for (std::uint32_t i = 10; i < kCount - 1; ++i) ASSERT_EQ(recvText(i, kEagerLimit), text);
  expectLost("connection closed");
}

TEST_F(MessengerTest, AbortsWithoutAReasonLoseThePeer) {
  script_->say(frame(FrameKind::kAbort, 0, 3, 0, 3), std::vector<std::byte>(3));
  expectLost("an abort without a reason");
}

TEST_F(MessengerTest, APeerThatLeavesInTheMiddleOfAMessageIsLost) {
  script_->say(frame(FrameKind::kData, 1, 100, 0, 100), std::vector<std::byte>(50));
  script_->ends = true;
  std::vector<std::byte> data(100);
  const Status status = recv(1, data, 30s);
  EXPECT_EQ(toString(status), "peer lost: rank 0 on host a is gone (connection closed)");
}

// Its first half is in a buffer that is then withdrawn: the message waits for the next receive.
TEST_F(MessengerTest, ASmallMessageSurvivesItsWithdrawnReceive) {
  const std::string text(1000, 'y');
  script_->say(frame(FrameKind::kData, 1, 1000, 0, 1000),
               std::as_bytes(std::span(text)).first(500));
  std::vector<std::byte> first(1000);
  EXPECT_EQ(recv(1, first).code(), StatusCode::kTimeout);
  const auto rest = std::as_bytes(std::span(text)).subspan(500);
  const std::vector<std::byte> before = first;
  script_->says.insert(script_->says.end(), rest.begin(), rest.end());
  EXPECT_EQ(recvText(1, 1000), text);
  EXPECT_TRUE(first == before);
}

// Of a large one, the parts that had come are gone with the buffer: nobody waits for the rest.
TEST_F(MessengerTest, ALargeMessageIsLostWithItsReceive) {
  std::vector<std::byte> data(kLarge);
  const auto sayHalf = [&](std::size_t offset) {
    script_->say(frame(FrameKind::kPart, 1, kLarge, offset, kLarge / 2),
                 std::vector<std::byte>(kLarge / 2));
  };
  Request request;
  Request* const requests[] = {&request};
  messenger_.recv(0, {1, 1, 0, {}}, data, request);
  sayHalf(0);
  EXPECT_EQ(messenger_.wait(requests, Deadline::after(50ms)).code(), StatusCode::kTimeout);
  EXPECT_TRUE(request.begun());
  for (int i = 0; i < 2; ++i) {
    const Status status = recv(1, data, 30s);
    EXPECT_EQ(status.code(), StatusCode::kCancelled) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("it is lost"));
    if (i == 0) sayHalf(kLarge / 2);
    sayData(10 + i, "next");
    EXPECT_EQ(recvText(10 + i, 4), "next");
  }
}

TEST_F(MessengerTest, PendingRequestsAreCancelledAtTheEnd) {
  Request request;
  std::byte data{};
  auto script = std::make_shared<Script>();
  {
    Messenger messenger(options(), std::make_unique<ScriptBackend>(script));
    messenger.recv(0, {1, 1, 0, {}}, {&data, 1}, request);
  }
  ASSERT_TRUE(request.done());
  EXPECT_EQ(request.status().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace colla::transport
