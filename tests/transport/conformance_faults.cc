// Conformance: what does not fit, does not come, or dies ends the requests that it concerns, and
// names the peer.
#include <gmock/gmock.h>

#include <atomic>
#include <latch>

#include "transport/conformance.h"
#include "transport/frame.h"

namespace colla::transport {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kLarge = 5 << 20;

// Waits until a peer's word about `group` has come.
Status heardOf(Transport& transport, std::uint32_t group) {
  const Deadline deadline = Deadline::after(30s);
  for (;;) {
    const Status status = transport.aborted(group);
    if (!status.ok() || deadline.expired()) return status;
    std::this_thread::yield();
  }
}

TEST_P(TransportConformance, AnotherSizeEndsBothSides) {
  constexpr std::size_t kSmall = 64 << 10;
  const std::size_t sizes[] = {10, 20, 70'000, 80'000};
  start(2);
  std::uint32_t group = 0;
  for (const std::size_t sending : sizes) {
    for (const std::size_t receiving : sizes) {
      if (sending == receiving) continue;
      for (const bool sendFirst : {true, false}) {
        SCOPED_TRACE(::testing::Message() << sending << " to " << receiving << sendFirst);
        ++group;
        const Envelope e = envelope(group, 3);
        const Bytes out = pattern(sending, 1);
        Bytes in(receiving);
        Request sent;
        Request received;
        // The same on both sides, which can pass it on.
        const std::string fits = "rank 0 on host a sends " + std::to_string(sending) +
                                 " bytes to rank 1 on host b, which expects " +
                                 std::to_string(receiving);
        std::latch first(1);
        const auto inTurn = [&](bool mine, const auto& post) {
          if (!mine) first.wait();
          post();
          if (mine) first.count_down();
        };
        run([&](int self) {
          if (self == 0) {
            inTurn(sendFirst, [&] { peer(0).send(1, e, out, sent); });
            const Status status = wait(peer(0), {&sent});
            if (sending > kSmall) {
              EXPECT_EQ(status.code(), StatusCode::kMismatch) << status;
            }
            // A small one may have been done before the receiver looked.
            if (!status.ok()) {
              EXPECT_EQ(status.code(), StatusCode::kMismatch) << status;
              EXPECT_EQ(status.peer(), 1);
              EXPECT_EQ(status.message(), fits) << status;
              EXPECT_EQ(sent.theirs(), e.call);
            }
          } else {
            inTurn(!sendFirst, [&] { peer(1).recv(0, e, in, received); });
            const Status status = wait(peer(1), {&received});
            EXPECT_EQ(status.code(), StatusCode::kMismatch) << status;
            EXPECT_EQ(status.peer(), 0);
            EXPECT_EQ(status.message(), fits) << status;
            EXPECT_EQ(received.theirs(), e.call);
            // Keeps the connection moving until the sender knows.
            Bytes end(1);
            EXPECT_EQ(toString(recv(peer(1), 0, envelope(1000, group), end)), "ok");
          }
          if (self == 0) {
            EXPECT_EQ(toString(send(peer(0), 1, envelope(1000, group), Bytes(1))), "ok");
          }
        });
      }
    }
  }
}

// Two ranks that exchange with each other, but in different calls and at different steps.
TEST_P(TransportConformance, AnotherCallEndsBothSides) {
  start(2);
  std::uint32_t group = 0;
  for (const std::size_t size : {std::size_t{100}, kLarge}) {
    for (const std::uint32_t step : {0, 1}) {
      ++group;
      run([&](int self) {
        Envelope e = envelope(group, 3, self == 0 ? 0 : step);
        e.call.operation = self == 0 ? 4 : 5;
        const Bytes out = pattern(size, 1);
        Bytes in(size);
        Request sent;
        Request received;
        peer(self).send(1 - self, e, out, sent);
        peer(self).recv(1 - self, e, in, received);
        const Status status = wait(peer(self), {&received, &sent});
        EXPECT_EQ(status.code(), StatusCode::kMismatch) << status;
        EXPECT_EQ(status.peer(), 1 - self);
        EXPECT_THAT(std::string(status.message()), HasSubstr(self == 0 ? "rank 1" : "rank 0"));
        EXPECT_EQ(received.theirs().operation, self == 0 ? 5 : 4);
        EXPECT_TRUE(sent.done() && received.done());
        EXPECT_TRUE(in == Bytes(size));
      });
    }
  }
}

TEST_P(TransportConformance, TimeoutNamesThoseWhoDidNotCome) {
  start(4);
  run([&](int self) {
    if (self == 0) {
      Bytes small(8);
      Bytes large(kLarge);
      Bytes third(8);
      Request a;
      Request b;
      Request c;
      peer(0).recv(1, envelope(1, 1), small, a);
      peer(0).recv(2, envelope(1, 1), third, c);
      peer(0).recv(3, envelope(1, 1), large, b);
      const Status status = wait(peer(0), {&a, &c, &b}, Deadline::after(1500ms));
      EXPECT_EQ(status.code(), StatusCode::kTimeout) << status;
      EXPECT_EQ(status.peer(), 1);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("rank 1 on host b, rank 3 on host d did not answer for 1."));
      EXPECT_THAT(std::string(status.message()), Not(HasSubstr("rank 2")));
      EXPECT_TRUE(a.done() && b.done());
      EXPECT_EQ(a.status().code(), StatusCode::kTimeout);
      EXPECT_TRUE(c.done() && c.status().ok());
    } else if (self == 2) {
      EXPECT_EQ(toString(send(peer(2), 0, envelope(1, 1), pattern(8, 0))), "ok");
    }
  });
  // Usable with all of them, and what came too late has touched nothing.
  run([&](int self) {
    for (int other = 1; other < 4; ++other) {
      Bytes in(kLarge);
      if (self == 0) {
        EXPECT_EQ(toString(recv(peer(0), other, envelope(2, 1), in)), "ok");
      } else if (self == other) {
        EXPECT_EQ(toString(send(peer(self), 0, envelope(2, 1), in)), "ok");
      }
    }
  });
}

// The receiver gives up, then the message comes: nobody writes to the buffer any more.
TEST_P(TransportConformance, WithdrawnReceiveIsNotTouched) {
  start(2);
  greet(1, 0);
  for (const std::size_t size : {std::size_t{64}, kLarge}) {
    const auto sequence = static_cast<std::uint32_t>(size);
    Bytes in(size);
    EXPECT_EQ(recv(peer(0), 1, envelope(1, sequence), in, Deadline::after(1ms)).code(),
              StatusCode::kTimeout);
    run([&](int self) {
      Bytes end(1);
      if (self == 0) {
        EXPECT_EQ(toString(recv(peer(0), 1, envelope(2, sequence), end)), "ok");
      } else {
        EXPECT_EQ(toString(send(peer(1), 0, envelope(1, sequence), pattern(size, 1))), "ok");
        EXPECT_EQ(toString(send(peer(1), 0, envelope(2, sequence), end)), "ok");
      }
    });
    EXPECT_TRUE(in == Bytes(size));
  }
}

// A receive that timed out may be posted again.
TEST_P(TransportConformance, WithdrawnReceiveCanBeRepeated) {
  start(2);
  greet(1, 0);
  for (const std::size_t size : {std::size_t{64}, kLarge}) {
    const Envelope e = envelope(1, static_cast<std::uint32_t>(size));
    Bytes in(size);
    EXPECT_EQ(recv(peer(0), 1, e, in, Deadline::after(1ms)).code(), StatusCode::kTimeout);
    run([&](int self) {
      if (self == 0) {
        EXPECT_EQ(toString(recv(peer(0), 1, e, in)), "ok");
      } else {
        EXPECT_EQ(toString(send(peer(1), 0, e, pattern(size, 1))), "ok");
      }
    });
    EXPECT_TRUE(in == pattern(size, 1));
  }
}

// The sender gives up in the middle: the connection stays good for what comes after.
TEST_P(TransportConformance, SendWithdrawnInTheMiddle) {
  constexpr std::size_t kHuge = 64 << 20;  // More than any stream buffers.
  start(2);
  greet(1, 0);
  Bytes in(kHuge);
  Request received;
  peer(0).recv(1, envelope(1, 1), in, received);  // Nobody waits: what fits a buffer moves.
  {
    const Bytes out = pattern(kHuge, 1);
    const Status status = send(peer(1), 0, envelope(1, 1), out, Deadline::after(300ms));
    EXPECT_EQ(status.code(), StatusCode::kTimeout) << status;
    EXPECT_EQ(status.peer(), 0);
  }
  run([&](int self) {
    Bytes small(100);
    if (self == 1) {
      EXPECT_EQ(toString(send(peer(1), 0, envelope(2, 1), pattern(100, 2))), "ok");
      EXPECT_EQ(toString(send(peer(1), 0, envelope(2, 2), pattern(100, 3))), "ok");
    } else {
      EXPECT_EQ(toString(recv(peer(0), 1, envelope(2, 1), small)), "ok");
      EXPECT_TRUE(small == pattern(100, 2));
      EXPECT_EQ(wait(peer(0), {&received}, Deadline::after(10ms)).code(), StatusCode::kTimeout);
      EXPECT_EQ(toString(recv(peer(0), 1, envelope(2, 2), small)), "ok");
      EXPECT_TRUE(small == pattern(100, 3));
    }
  });
}

TEST_P(TransportConformance, LostPeerEndsAllRequestsWithIt) {
  start(3);
  greet(2, 0);
  greet(2, 1);
  std::latch posted(2);
  std::jthread victim([&] {
    posted.wait();
    leave(2);
  });
  std::vector<std::jthread> survivors;
  for (const int self : {0, 1}) {
    survivors.emplace_back([&, self] {
      const Bytes out = pattern(kLarge, 1);
      Bytes small(8);
      Bytes large(kLarge);
      std::vector<Request> requests(3);
      peer(self).recv(2, envelope(1, 1, 0), small, requests[0]);
      peer(self).recv(2, envelope(1, 1, 1), large, requests[1]);
      peer(self).send(2, envelope(1, 1, 2), out, requests[2]);
      posted.count_down();
      for (Request& r : requests) {
        const Status status = wait(peer(self), {&r});
        EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status;
        EXPECT_EQ(status.peer(), 2);
        EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2 on host c is gone"));
      }
      EXPECT_EQ(send(peer(self), 2, envelope(1, 2), small).code(), StatusCode::kPeerLost);
      EXPECT_EQ(recv(peer(self), 2, envelope(1, 2), small).code(), StatusCode::kPeerLost);
      // The others go on.
      Bytes in(kLarge);
      Request sent;
      Request received;
      peer(self).send(1 - self, envelope(3, 1), out, sent);
      peer(self).recv(1 - self, envelope(3, 1), in, received);
      EXPECT_EQ(toString(wait(peer(self), {&sent, &received})), "ok");
    });
  }
}

// Its process ended before anybody spoke to it.
TEST_P(TransportConformance, APeerThatLeftBeforeAnyMessageIsLost) {
  for (const int gone : {0, 1}) {
    const std::string name = gone == 0 ? "rank 0 on host a" : "rank 1 on host b";
    for (const auto when : {0ms, 400ms}) {  // Before somebody waits for it, and after.
      start(2);
      std::jthread leaving([&, when] {
        std::this_thread::sleep_for(when);
        leave(gone);
      });
      if (when == 0ms) leaving.join();
      Bytes data(8);
      for (const bool sending : {false, true}) {
        const auto since = std::chrono::steady_clock::now();
        const Status status = sending ? send(peer(1 - gone), gone, envelope(1, 1), data)
                                      : recv(peer(1 - gone), gone, envelope(1, 1), data);
        EXPECT_LT(std::chrono::steady_clock::now() - since, 2s + when);
        EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status;
        EXPECT_EQ(status.peer(), gone);
        EXPECT_THAT(std::string(status.message()), HasSubstr(name + " is gone"));
      }
    }
  }
}

// One wait for two peers: the loss of one of them withdraws the request with the other.
TEST_P(TransportConformance, FailureWithdrawsTheRest) {
  start(3);
  greet(2, 0);
  greet(1, 0);
  leave(2);
  Bytes a(8);
  Bytes b(kLarge);
  Request fromOne;
  Request fromTwo;
  peer(0).recv(1, envelope(1, 1), b, fromOne);
  peer(0).recv(2, envelope(1, 1), a, fromTwo);
  const Status status = wait(peer(0), {&fromOne, &fromTwo});
  EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status;
  EXPECT_EQ(status.peer(), 2);
  ASSERT_TRUE(fromOne.done());
  EXPECT_EQ(fromOne.status().code(), StatusCode::kCancelled);
}

// Peer 0 waits for peer 2 while peer 1 runs ahead, further than anybody keeps messages for: that
// one waits in turn, and then all of its messages come, also after it has left.
TEST_P(TransportConformance, APeerThatRunsAheadIsHeldUp) {
  constexpr std::uint32_t kKept = (256 << 20) / (kEagerLimit + 128);  // Each costs some bytes.
  constexpr std::uint32_t kCount = kKept + 400;  // More than the streams hold as well.
  start(3);
  greet(1, 0);
  greet(2, 0);
  std::atomic<std::uint32_t> handed = 0;
  run([&](int self) {
    Bytes data(kEagerLimit);
    // Time enough for peer 0 to see what peer 1 has for it.
    const auto roundTrips = [&](int other) {
      for (std::uint32_t i = 0; i < 100; ++i) {
        ASSERT_EQ(toString(send(peer(self), other, envelope(1, i), data)), "ok");
        ASSERT_EQ(toString(recv(peer(self), other, envelope(1, i), data)), "ok");
      }
    };
    if (self == 0) {
      // As long as peer 1 gets on: a loaded machine takes its time for so many bytes.
      Bytes go(1);
      Status status;
      std::uint32_t before = 0;
      do {
        before = handed;
        status = recv(peer(0), 2, envelope(3, 0), go);
      } while (status.code() == StatusCode::kTimeout && handed != before);
      ASSERT_EQ(toString(status), "ok");
      roundTrips(2);
      for (std::uint32_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(toString(recv(peer(0), 1, envelope(2, i), data)), "ok") << i;
        ASSERT_EQ(data.front(), static_cast<std::byte>(i)) << i;
      }
      EXPECT_EQ(recv(peer(0), 1, envelope(2, kCount), data).code(), StatusCode::kPeerLost);
    } else if (self == 1) {
      for (std::uint32_t i = 0; i < kCount; ++i, handed = i) {
        data.front() = static_cast<std::byte>(i);
        const Status status = send(peer(1), 0, envelope(2, i), data);
        EXPECT_EQ(toString(status), "ok") << i;
        if (!status.ok()) break;
      }
      handed = kCount;
      leave(1);
    } else {
      while (handed < kKept) std::this_thread::yield();
      ASSERT_EQ(toString(send(peer(2), 0, envelope(3, 0), Bytes(1))), "ok");
      roundTrips(0);
    }
  });
}

TEST_P(TransportConformance, LastWordsAreHeard) {
  start(2);
  greet(1, 0);
  EXPECT_EQ(toString(send(peer(1), 0, envelope(1, 1), pattern(1000, 1))), "ok");
  EXPECT_EQ(toString(send(peer(1), 0, envelope(1, 2), pattern(1000, 2))), "ok");
  leave(1);
  Bytes in(1000);
  EXPECT_EQ(toString(recv(peer(0), 1, envelope(1, 2), in)), "ok");
  EXPECT_TRUE(in == pattern(1000, 2));
  EXPECT_EQ(recv(peer(0), 1, envelope(1, 3), in).code(), StatusCode::kPeerLost);
  EXPECT_EQ(toString(recv(peer(0), 1, envelope(1, 1), in)), "ok");
  EXPECT_TRUE(in == pattern(1000, 1));
}

// It is done when it is handed over; its sender may leave at once.
TEST_P(TransportConformance, ALargeMessageOutlivesItsSender) {
  start(2);
  greet(1, 0);
  run([&](int self) {
    const Bytes expected = pattern(kLarge, 1);
    if (self == 1) {
      EXPECT_EQ(toString(send(peer(1), 0, envelope(1, 1), expected)), "ok");
      leave(1);
    } else {
      Bytes in(kLarge);
      EXPECT_EQ(toString(recv(peer(0), 1, envelope(1, 1), in)), "ok");
      EXPECT_TRUE(in == expected);
      EXPECT_EQ(recv(peer(0), 1, envelope(1, 2), in).code(), StatusCode::kPeerLost);
    }
  });
}

TEST_P(TransportConformance, AbortReachesTheOthers) {
  start(3);
  greet(2, 0);
  greet(2, 1);
  greet(1, 0);
  const Status why(StatusCode::kPeerLost, "rank 9 on host x is gone", 9);
  run([&](int self) {
    if (self == 2) {
      peer(2).abort(5, why, std::vector<int>{0, 1, 2});
      return;
    }
    // Waits for the one that waits for it.
    Bytes small(8);
    Bytes large(kLarge);
    Request a;
    Request b;
    peer(self).recv(1 - self, envelope(5, 1), small, a);
    peer(self).recv(1 - self, envelope(5, 2), large, b);
    const Status status = wait(peer(self), {&a, &b});
    EXPECT_EQ(toString(status), toString(why));
    EXPECT_EQ(status.peer(), 9);
    EXPECT_EQ(toString(peer(self).aborted(5)), toString(why));
    EXPECT_EQ(toString(send(peer(self), 2, envelope(5, 3), small)), toString(why));
    EXPECT_TRUE(peer(self).aborted(6).ok());
    // Other groups go on.
    Request sent;
    Request received;
    peer(self).send(1 - self, envelope(6, 1), large, sent);
    Bytes in(kLarge);
    peer(self).recv(1 - self, envelope(6, 1), in, received);
    EXPECT_EQ(toString(wait(peer(self), {&sent, &received})), "ok");
  });
  EXPECT_EQ(toString(peer(2).aborted(5)), toString(why));  // It named itself as well.
}

// Who leaves right after it has said why is heard, behind all else that it sent, even though it has
// not read what it was sent.
TEST_P(TransportConformance, AbortIsHeardAfterItsSenderLeft) {
  start(2);
  greet(1, 0);
  constexpr std::size_t kCount = 40;  // Within what a peer keeps for nobody.
  const Bytes out = pattern(kEagerLimit, 1);
  std::vector<Request> unread(kCount), unasked(kCount);
  for (auto* requests : {&unread, &unasked}) {
    const int from = requests == &unread ? 0 : 1;
    for (std::size_t i = 0; i < requests->size(); ++i) {
      peer(from).send(1 - from, envelope(6, static_cast<std::uint32_t>(i)), out, (*requests)[i]);
    }
  }
  const Status why(StatusCode::kPeerLost, "rank 9 on host x is gone", 9);
  peer(1).abort(5, why, std::vector<int>{0, 1});
  std::jthread leaving([&] { leave(1); });
  Bytes in(8);
  EXPECT_EQ(toString(recv(peer(0), 1, envelope(5, 1), in)), toString(why));
  leaving.join();
  std::vector<Request*> pending;
  for (Request& request : unread) pending.push_back(&request);
  EXPECT_THAT(wait(peer(0), pending).code(), AnyOf(StatusCode::kOk, StatusCode::kPeerLost));
}

TEST_P(TransportConformance, AbortIsHeardWithoutAnyRequest) {
  start(2);
  greet(1, 0);
  peer(1).abort(5, {StatusCode::kGroupBroken, std::string(5000, 'x'), 1}, std::vector<int>{0});
  const Status status = heardOf(peer(0), 5);
  EXPECT_EQ(status.code(), StatusCode::kGroupBroken);
  EXPECT_EQ(status.peer(), 1);
  EXPECT_THAT(std::string(status.message()), HasSubstr("xxxx"));
}

}  // namespace
}  // namespace colla::transport
