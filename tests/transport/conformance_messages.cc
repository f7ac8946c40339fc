// Conformance: messages arrive, whatever their size, order and number.
#include <latch>

#include "transport/conformance.h"

namespace colla::transport {
namespace {

constexpr std::size_t kSizes[] = {0, 1, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 5 << 20};

TEST_P(TransportConformance, KnowsItsPlace) {
  start(3);
  run([&](int self) {
    EXPECT_EQ(peer(self).self(), self);
    EXPECT_EQ(peer(self).size(), 3);
    EXPECT_FALSE(peer(self).name().empty());
  });
}

TEST_P(TransportConformance, EverySizeBothWays) {
  start(2);
  run([&](int self) {
    for (std::uint32_t i = 0; i < std::size(kSizes); ++i) {
      for (int from : {0, 1}) {
        const Bytes expected = pattern(kSizes[i], i);
        Bytes data(kSizes[i]);
        const Envelope e = envelope(1, i, static_cast<std::uint32_t>(from));
        if (self == from) {
          EXPECT_EQ(toString(send(peer(self), 1 - self, e, expected)), "ok");
        } else {
          EXPECT_EQ(toString(recv(peer(self), 1 - self, e, data)), "ok");
          EXPECT_TRUE(data == expected) << kSizes[i];
        }
      }
    }
  });
}

TEST_P(TransportConformance, WaitsForAnyOfSeveral) {
  start(3);
  std::latch seen(1);
  run([&](int self) {
    const Bytes data = pattern(10, 1);
    if (self == 1) {
      EXPECT_TRUE(send(peer(1), 0, envelope(1, 0), data).ok());
      return;
    }
    if (self == 2) {
      seen.wait();
      EXPECT_TRUE(send(peer(2), 0, envelope(1, 0), data).ok());
      return;
    }
    Bytes first(10);
    Bytes second(10);
    Request fromFirst;
    Request fromSecond;
    peer(0).recv(1, envelope(1, 0), first, fromFirst);
    peer(0).recv(2, envelope(1, 0), second, fromSecond);
    const std::vector<Request*> both = {&fromSecond, &fromFirst};
    EXPECT_TRUE(peer(0).waitAny(both, patience()));
    EXPECT_TRUE(fromFirst.done());
    // Nothing is withdrawn when the time is over.
    const std::vector<Request*> other = {&fromSecond};
    EXPECT_FALSE(peer(0).waitAny(other, Deadline::after(std::chrono::milliseconds(1))));
    EXPECT_FALSE(fromSecond.done());
    seen.count_down();
    EXPECT_TRUE(peer(0).waitAny(other, patience()));
    EXPECT_TRUE(first == data && second == data);
  });
}

TEST_P(TransportConformance, ToItself) {
  start(2);
  for (std::uint32_t i = 0; i < std::size(kSizes); ++i) {
    const Bytes expected = pattern(kSizes[i], i);
    Bytes data(kSizes[i]);
    Request sent;
    Request received;
    if (i % 2 == 0) peer(1).recv(1, envelope(1, i), data, received);
    peer(1).send(1, envelope(1, i), expected, sent);
    if (i % 2 == 1) peer(1).recv(1, envelope(1, i), data, received);
    EXPECT_EQ(toString(wait(peer(1), {&sent, &received})), "ok");
    EXPECT_TRUE(data == expected) << kSizes[i];
  }
}

// Every message is received in the opposite order: most come unexpected, large ones wait.
TEST_P(TransportConformance, CrossedOrders) {
  constexpr std::uint32_t kCount = 120;
  start(2);
  run([&](int self) {
    std::vector<Bytes> out;
    std::vector<Bytes> in;
    std::vector<Request> requests(2 * kCount);
    std::vector<Request*> all;
    for (Request& r : requests) all.push_back(&r);
    for (std::uint32_t i = 0; i < kCount; ++i) {
      const std::size_t size = i % 10 == 3 ? 100'000 + i : i * 31;
      out.push_back(pattern(size, i + static_cast<unsigned>(self)));
      in.emplace_back(size);
    }
    for (std::uint32_t i = 0; i < kCount; ++i) {
      peer(self).send(1 - self, envelope(1, i / 7, i), out[i], requests[i]);
    }
    for (std::uint32_t i = kCount; i-- > 0;) {
      peer(self).recv(1 - self, envelope(1, i / 7, i), in[i], requests[kCount + i]);
    }
    EXPECT_EQ(toString(wait(peer(self), all)), "ok");
    for (std::uint32_t i = 0; i < kCount; ++i) {
      EXPECT_TRUE(in[i] == pattern(in[i].size(), i + static_cast<unsigned>(1 - self))) << i;
    }
  });
}

TEST_P(TransportConformance, SmallMessagesNeedNoReceive) {
  constexpr std::uint32_t kCount = 500;
  start(2);
  run([&](int self) {
    if (self == 0) {
      for (std::uint32_t i = 0; i <= kCount; ++i) {
        EXPECT_EQ(toString(send(peer(0), 1, envelope(1, i), pattern(i * 10, i))), "ok");
      }
    } else {
      // The last one first: all others have come before it.
      for (std::uint32_t i = kCount + 1; i-- > 0;) {
        Bytes data(i * 10);
        EXPECT_EQ(toString(recv(peer(1), 0, envelope(1, i), data)), "ok");
        EXPECT_TRUE(data == pattern(i * 10, i)) << i;
      }
    }
  });
}

TEST_P(TransportConformance, LargeInAllDirectionsAtOnce) {
  constexpr int kPeers = 4;
  constexpr std::size_t kBytes = 5 << 20;
  start(kPeers);
  run([&](int self) {
    const Bytes out = pattern(kBytes, static_cast<unsigned>(self));
    std::vector<Bytes> in(kPeers, Bytes(kBytes));
    std::vector<Request> requests(2 * kPeers);
    std::vector<Request*> all;
    for (Request& r : requests) all.push_back(&r);
    for (int other = 0; other < kPeers; ++other) {
      const auto index = static_cast<std::size_t>(other);
      peer(self).send(other, envelope(1, 1), out, requests[index]);
      peer(self).recv(other, envelope(1, 1), in[index], requests[kPeers + index]);
    }
    EXPECT_EQ(toString(wait(peer(self), all)), "ok");
    for (int other = 0; other < kPeers; ++other) {
      EXPECT_TRUE(in[static_cast<std::size_t>(other)] ==
                  pattern(kBytes, static_cast<unsigned>(other)));
    }
  });
}

// Each thread waits for its own messages; whoever leads moves those of the others.
TEST_P(TransportConformance, ManyThreadsWaitAtOnce) {
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint32_t kRounds = 60;
  start(2);
  run([&](int self) {
    std::vector<std::jthread> threads;
    for (std::uint32_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (std::uint32_t round = 0; round < kRounds; ++round) {
          const std::size_t size = round % 8 == t ? 200'000 : 100;
          const Bytes out = pattern(size, t + round + static_cast<unsigned>(self));
          Bytes in(size);
          Request sent;
          Request received;
          peer(self).recv(1 - self, envelope(t, round), in, received);
          peer(self).send(1 - self, envelope(t, round), out, sent);
          ASSERT_EQ(toString(wait(peer(self), {&received, &sent})), "ok");
          ASSERT_TRUE(in == pattern(size, t + round + static_cast<unsigned>(1 - self)));
        }
      });
    }
  });
}

// A thread that only posts, and lets another one wait for it.
TEST_P(TransportConformance, RequestsOfOneThreadAreWaitedForByAnother) {
  start(2);
  run([&](int self) {
    const Bytes out = pattern(300'000, static_cast<unsigned>(self));
    Bytes in(out.size());
    Bytes never(1);
    Request blocked;
    Request sent;
    Request received;
    std::latch posted(1);
    peer(self).recv(1 - self, envelope(2, 0), never, blocked);
    std::jthread waiter([&] {
      posted.wait();
      EXPECT_EQ(toString(wait(peer(self), {&received, &sent})), "ok");
      Request release;
      EXPECT_EQ(toString(send(peer(self), 1 - self, envelope(2, 0), Bytes(1))), "ok");
    });
    std::jthread poster([&] {
      peer(self).recv(1 - self, envelope(1, 0), in, received);
      peer(self).send(1 - self, envelope(1, 0), out, sent);
      posted.count_down();
    });
    EXPECT_EQ(toString(wait(peer(self), {&blocked})), "ok");
    waiter.join();
    EXPECT_TRUE(in == pattern(out.size(), static_cast<unsigned>(1 - self)));
  });
}

TEST_P(TransportConformance, ThereIsNoSuchPeer) {
  start(2);
  Bytes data(3);
  EXPECT_EQ(send(peer(0), 2, envelope(1, 1), data).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(recv(peer(0), -1, envelope(1, 1), data).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace colla::transport
