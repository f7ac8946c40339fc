// Messages between two ranks: what is matched with what, on every transport.
#include "collective/mailbox.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <numeric>
#include <vector>

#include "support/ranks.h"

namespace colla {
namespace {

using collective::Mailbox;
using test::Wire;
using namespace std::chrono_literals;

struct Outcome {
  Status status;
  int source;
};

// One rank's end.
struct Rank {
  std::unique_ptr<transport::Transport> transport;
  std::unique_ptr<Mailbox> box;

  template <typename T>
  std::future<Outcome> send(int to, std::uint32_t tag, const std::vector<T>& data,
                            Mailbox::Ticket* ticket = nullptr) {
    auto promise = std::make_shared<std::promise<Outcome>>();
    const auto number =
        box->send(to, tag, std::as_bytes(std::span(data)), [promise](const Status& s, int source) {
          promise->set_value({s, source});
        });
    if (ticket != nullptr) *ticket = number;
    return promise->get_future();
  }
  template <typename T>
  std::future<Outcome> recv(int from, std::uint32_t tag, std::vector<T>& data,
                            Mailbox::Ticket* ticket = nullptr) {
    auto promise = std::make_shared<std::promise<Outcome>>();
    const auto number = box->recv(from, tag, std::as_writable_bytes(std::span(data)),
                                  [promise](const Status& s, int source) {
                                    promise->set_value({s, source});
                                  });
    if (ticket != nullptr) *ticket = number;
    return promise->get_future();
  }
};

Outcome await(std::future<Outcome>& future) {
  if (future.wait_for(20s) != std::future_status::ready) {
    return {Status(StatusCode::kInternal, "the message did not end"), -1};
  }
  return future.get();
}

class Mailboxes : public testing::Test {
 protected:
  void start(Wire wire, int count) {
    std::vector<std::string> names;
    for (int rank = 0; rank < count; ++rank) names.push_back("rank " + std::to_string(rank));
    for (auto& transport : test::makeTransports(wire, count)) {
      Rank& rank = ranks_.emplace_back();
      rank.transport = std::move(transport);
      rank.box = std::make_unique<Mailbox>(*rank.transport, 77, names);
    }
  }
  void TearDown() override {
    for (Rank& rank : ranks_) rank.box.reset();
  }
  std::vector<Rank> ranks_;
};

class MailboxTest : public Mailboxes, public testing::WithParamInterface<Wire> {
 protected:
  void start(int count) { Mailboxes::start(GetParam(), count); }
};

// What a mailbox does by itself, whatever brings the messages.
class MailboxRuleTest : public Mailboxes {
 protected:
  void start(int count) { Mailboxes::start(Wire::kMessages, count); }
};

std::vector<int> numbers(std::size_t count, int first) {
  std::vector<int> data(count);
  std::iota(data.begin(), data.end(), first);
  return data;
}

TEST_P(MailboxTest, MatchesByTagAndInOrderWithinOne) {
  start(2);
  // Short ones go at once, long ones wait for their receiver.
  const std::vector<std::size_t> sizes = {3, 100'000, 0, 50, 60'000};
  std::vector<std::vector<int>> sent;
  std::vector<std::future<Outcome>> ends;
  for (std::uint32_t tag : {0U, 5U}) {
    for (const std::size_t size : sizes) {
      sent.push_back(numbers(size, static_cast<int>(size + tag)));
    }
  }
  for (std::size_t i = 0; i < sent.size(); ++i) {
    ends.push_back(ranks_[0].send(1, i < sizes.size() ? 0 : 5, sent[i]));
  }
  // The other tag first.
  std::vector<std::vector<int>> received(sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const std::size_t message = (i + sizes.size()) % sent.size();
    received[message].resize(sent[message].size());
    auto end = ranks_[1].recv(0, message < sizes.size() ? 0 : 5, received[message]);
    const Outcome outcome = await(end);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.source, 0);
    EXPECT_EQ(received[message], sent[message]);
  }
  for (auto& end : ends) EXPECT_TRUE(await(end).status.ok());
}

TEST_P(MailboxTest, AllToAllWithReceivesFirst) {
  constexpr int kRanks = 3;
  start(kRanks);
  std::vector<std::vector<int>> received(kRanks * kRanks, std::vector<int>(30'000));
  std::vector<std::vector<int>> sent(kRanks * kRanks);
  std::vector<std::future<Outcome>> ends;
  for (int to = 0; to < kRanks; ++to) {
    for (int from = kRanks - 1; from >= 0; --from) {
      if (from != to) ends.push_back(ranks_[to].recv(from, 1, received[from * kRanks + to]));
    }
  }
  for (int from = 0; from < kRanks; ++from) {
    for (int to = 0; to < kRanks; ++to) {
      sent[from * kRanks + to] = numbers(30'000, 10 * from + to);
      if (from != to) ends.push_back(ranks_[from].send(to, 1, sent[from * kRanks + to]));
    }
  }
  for (auto& end : ends) EXPECT_TRUE(await(end).status.ok());
  for (int from = 0; from < kRanks; ++from) {
    for (int to = 0; to < kRanks; ++to) {
      if (from == to) continue;
      EXPECT_EQ(received[from * kRanks + to], sent[from * kRanks + to]);
    }
  }
}

TEST_P(MailboxTest, ReceivesFromAnybody) {
  start(4);
  const auto one = numbers(10, 1);
  const auto other = numbers(40'000, 2);
  auto wrongTag = ranks_[3].send(0, 8, one);
  std::vector<int> first(40'000);
  auto end = ranks_[0].recv(Mailbox::kAnySource, 9, first);
  auto sent = ranks_[2].send(0, 9, other);
  Outcome outcome = await(end);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.source, 2);
  EXPECT_EQ(first, other);

  // A message that is shorter than its place; what it does not fill stays.
  std::vector<int> second(12, -1);
  auto next = ranks_[0].recv(Mailbox::kAnySource, 8, second);
  outcome = await(next);
  EXPECT_EQ(outcome.source, 3);
  EXPECT_EQ(std::vector<int>(second.begin(), second.begin() + 10), one);
  EXPECT_EQ(second[10], -1);
  EXPECT_TRUE(await(wrongTag).status.ok());
  EXPECT_TRUE(await(sent).status.ok());
}

TEST_F(MailboxRuleTest, RefusesWhatIsTooLongAndGoesOn) {
  start(2);
  const auto tooLong = numbers(50'000, 0);
  const auto fits = numbers(4, 9);
  auto sent = ranks_[0].send(1, 0, tooLong);
  auto alsoSent = ranks_[0].send(1, 0, fits);
  std::vector<int> place(4);
  auto end = ranks_[1].recv(0, 0, place);
  const Outcome outcome = await(end);
  EXPECT_EQ(outcome.status.code(), StatusCode::kMismatch) << outcome.status;
  EXPECT_EQ(outcome.status.peer(), 0);
  auto next = ranks_[1].recv(0, 0, place);
  EXPECT_TRUE(await(next).status.ok());
  EXPECT_EQ(place, fits);
  EXPECT_TRUE(await(sent).status.ok());
  EXPECT_TRUE(await(alsoSent).status.ok());
}

TEST_F(MailboxRuleTest, GivesUpWhatNobodyAnswers) {
  start(2);
  std::vector<int> place(4);
  Mailbox::Ticket ticket = 0;
  auto end = ranks_[1].recv(0, 3, place, &ticket);
  ranks_[1].box->giveUp(ticket, {StatusCode::kTimeout, "enough"});
  EXPECT_EQ(await(end).status.code(), StatusCode::kTimeout);
  ranks_[1].box->giveUp(ticket, {StatusCode::kTimeout, "twice does no harm"});

  // The tag is free for the next.
  const auto data = numbers(4, 1);
  auto sent = ranks_[0].send(1, 3, data);
  auto again = ranks_[1].recv(0, 3, place);
  EXPECT_TRUE(await(again).status.ok());
  EXPECT_EQ(place, data);
  EXPECT_TRUE(await(sent).status.ok());
}

TEST_P(MailboxTest, NamesALostPeerAndKeepsWhatItSent) {
  start(3);
  const auto data = numbers(5, 1);
  std::vector<int> place(5);
  // Everybody knows everybody, so that a loss is noticed.
  for (int from : {1, 2}) {
    auto sent = ranks_[from].send(0, 0, data);
    auto end = ranks_[0].recv(from, 0, place);
    ASSERT_TRUE(await(end).status.ok());
    ASSERT_TRUE(await(sent).status.ok());
  }
  std::vector<int> other(5);
  auto fromLost = ranks_[0].recv(1, 1, place);
  auto fromAnybody = ranks_[0].recv(Mailbox::kAnySource, 2, other);
  ranks_[1].box.reset();
  ranks_[1].transport.reset();
  const Outcome outcome = await(fromLost);
  EXPECT_EQ(outcome.status.code(), StatusCode::kPeerLost) << outcome.status;
  EXPECT_EQ(outcome.status.peer(), 1);
  // The others can still send.
  auto sent = ranks_[2].send(0, 2, data);
  EXPECT_TRUE(await(fromAnybody).status.ok());
  EXPECT_EQ(other, data);
  EXPECT_TRUE(await(sent).status.ok());
}

TEST_P(MailboxTest, CancelsWhatIsUnderWayWhenItCloses) {
  start(2);
  std::vector<int> place(5);
  const auto data = numbers(50'000, 0);
  auto received = ranks_[0].recv(1, 0, place);
  auto sent = ranks_[0].send(1, 0, data);
  ranks_[0].box->close();
  EXPECT_EQ(await(received).status.code(), StatusCode::kCancelled);
  EXPECT_EQ(await(sent).status.code(), StatusCode::kCancelled);
}

INSTANTIATE_TEST_SUITE_P(Wires, MailboxTest,
                         testing::Values(Wire::kMessages, Wire::kShm, Wire::kTcpPlain, Wire::kUcx),
                         [](const auto& wire) {
                           std::string name = test::toString(wire.param);
                           std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
                           return name;
                         });

}  // namespace
}  // namespace colla
