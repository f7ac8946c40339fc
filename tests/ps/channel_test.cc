// A worker's channels, with servers that the test plays itself, message by message.
#include "ps/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/eventually.h"
#include "support/ranks.h"

namespace colla::ps {
namespace {

using namespace std::chrono_literals;

class ChannelTest : public ::testing::TestWithParam<test::Wire> {
 protected:
  static Deadline soon() { return Deadline::after(20s); }

  Channel channelTo(int server) {
    return {*transports_[0], server, "server " + std::to_string(server), kWorkerChannel};
  }
  // As server `server`, to the first ask of a channel.
  void answer(int server, Answer head, const std::string& text = "") {
    head.bytes = text.size();
    const std::vector<std::byte> bytes = encode(head);
    std::array<transport::Request, 2> requests;
    transport::Transport& transport = *transports_[server];
    transport.send(0, envelopeOf(kWorkerChannel, 0, kAnswerStep), bytes, requests[0]);
    transport.send(0, envelopeOf(kWorkerChannel, 0, kResultStep), std::as_bytes(std::span(text)),
                   requests[1]);
    for (transport::Request& request : std::span(requests).first(text.empty() ? 1 : 2)) {
      transport::Request* const one = &request;
      ASSERT_TRUE(transport.wait({&one, 1}, soon()).ok());
    }
  }

  // The worker, then two servers.
  std::vector<std::unique_ptr<transport::Transport>> transports_ =
      test::makeTransports(GetParam(), 3);
};
INSTANTIATE_TEST_SUITE_P(Wires, ChannelTest,
                         ::testing::Values(test::Wire::kMessages, test::Wire::kShm,
                                           test::Wire::kTcpPlain),
                         [](const auto& wire) { return toString(wire.param); });

// Contract: what a server answers after a different one has refused is read, so that nobody takes
// it for the answer to a later ask. Channels of the worker's next client count from 0 again.
TEST_P(ChannelTest, AnswerAfterARefusalMeetsNoLaterAsk) {
  std::atomic<bool> refused = false;
  std::thread worker([&] {
    {
      Channel first = channelTo(1);
      Channel second = channelTo(2);
      const std::vector<Channel::Expected> expected = {{&first, first.ask({})},
                                                       {&second, second.ask({})}};
      const auto replies = Channel::wait(expected, soon());
      EXPECT_EQ(replies.status().code(), StatusCode::kInvalidArgument);
      EXPECT_EQ(replies.status().message(), "no");
      refused = true;
    }
    Channel again = channelTo(2);
    const auto reply = again.call({}, {}, soon());
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->head.step, 2);
  });
  answer(1, {.code = StatusCode::kInvalidArgument}, "no");
  // A worker that does not wait for it is through by then; one that does has not given up yet.
  test::eventually([&] { return refused.load(); }, 100ms);
  answer(2, {.step = 1}, "late");
  EXPECT_TRUE(test::eventually([&] { return refused.load(); }));
  answer(2, {.step = 2});
  worker.join();
}

// It takes the two seconds that the others have: one wire is enough.
using SilentServerTest = ChannelTest;
INSTANTIATE_TEST_SUITE_P(Wires, SilentServerTest, ::testing::Values(test::Wire::kMessages),
                         [](const auto& wire) { return toString(wire.param); });

TEST_P(SilentServerTest, ItIsNamedWithTheTimeThatItHadToAnswer) {
  Channel first = channelTo(1);
  Channel second = channelTo(2);
  const std::vector<Channel::Expected> expected = {{&first, first.ask({})},
                                                   {&second, second.ask({})}};
  const auto replies = Channel::wait(expected, Deadline::after(300ms));
  EXPECT_EQ(replies.status().code(), StatusCode::kTimeout);
  EXPECT_EQ(replies.status().peer(), 1);
  EXPECT_THAT(std::string(replies.status().message()),
              ::testing::MatchesRegex("server 1, server 2 did not answer for (0\\.[3-9]|[1-9].*) s "
                                      "\\(collective_timeout, and 10 s more that servers "
                                      "have\\)"));
}

TEST_P(SilentServerTest, RefusalIsTheError) {
  std::thread server([this] { answer(2, {.code = StatusCode::kInvalidArgument}, "no"); });
  Channel first = channelTo(1);
  Channel second = channelTo(2);
  const std::vector<Channel::Expected> expected = {{&first, first.ask({})},
                                                   {&second, second.ask({})}};
  const auto replies = Channel::wait(expected, soon());
  EXPECT_EQ(replies.status().message(), "no");
  server.join();
}

}  // namespace
}  // namespace colla::ps
