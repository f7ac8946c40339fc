#include "rendezvous/store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>
#include <vector>

#include "store_fixture.h"

namespace colla::rendezvous {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(StoreTest, ValuesAreSharedByAllClients) {
  const auto a = connect(), b = connect();
  EXPECT_EQ(b->get("k", soon()).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(a->set("k", std::string("v\0w", 3), soon()).ok());
  EXPECT_EQ(*b->get("k", soon()), std::string("v\0w", 3));
  EXPECT_EQ(*a->add("n", 2, soon()), 2);
  EXPECT_EQ(*b->add("n", 3, soon()), 5);
  EXPECT_TRUE(b->compareSet("k", "other", "x", soon())->current.has_value());
  EXPECT_TRUE(b->compareSet("k", std::string("v\0w", 3), "x", soon())->set);
  EXPECT_TRUE(*a->remove("k", soon()));
  EXPECT_FALSE(*a->remove("k", soon()));
  EXPECT_TRUE(a->set("d/1", "x", soon()).ok());
  EXPECT_THAT(*b->list("d/", soon()), ElementsAre(Entry{"d/1", "x"}));
}

TEST_F(StoreTest, WaitEndsWithTheValueOrTheDeadline) {
  const auto a = connect(), b = connect();
  const auto late = b->wait("k", Deadline::after(20ms));
  EXPECT_EQ(late.status().code(), StatusCode::kTimeout) << late.status();
  EXPECT_EQ(toString(late.status()),
            "timeout: the store, where the job's processes meet, did not answer in time");
  EXPECT_TRUE(waitForWaiters(0));  // The server does not keep a wait that was given up.

  std::thread waiter([&] { EXPECT_EQ(*b->wait("k", soon()), "v"); });
  EXPECT_TRUE(waitForWaiters(1));
  EXPECT_TRUE(a->set("k", "v", soon()).ok());
  waiter.join();
}

TEST_F(StoreTest, WatchTellsChangesInOrder) {
  const auto a = connect(), b = connect();
  ASSERT_TRUE(a->set("w/1", "x", soon()).ok());
  {
    auto watch = b->watch("w/");
    ASSERT_TRUE(watch.ok()) << watch.status();
    EXPECT_EQ(*watch->next(soon()), (Entry{"w/1", "x"}));
    EXPECT_EQ(watch->next(Deadline::after(10ms)).status().code(), StatusCode::kTimeout);
    ASSERT_TRUE(a->set("w/2", "y", soon()).ok());
    ASSERT_TRUE(a->remove("w/1", soon()).ok());
    EXPECT_EQ(*watch->next(soon()), (Entry{"w/2", "y"}));
    EXPECT_EQ(*watch->next(soon()), (Entry{"w/1", std::nullopt}));
  }
  EXPECT_TRUE(waitForWaiters(0));
}

// Threads that wait for different things share one connection, whoever of them reads.
TEST_F(StoreTest, ThreadsShareOneConnection) {
  const auto shared = connect(), other = connect();
  constexpr int kThreads = 16;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const std::string key = fmt::format("k{}", i);
      EXPECT_EQ(*shared->wait(key, soon()), key);
      for (int round = 0; round < 20; ++round) {
        ASSERT_TRUE(shared->set(key, std::to_string(round), soon()).ok());
        EXPECT_EQ(*shared->get(key, soon()), std::to_string(round));
      }
    });
  }
  EXPECT_TRUE(waitForWaiters(kThreads));
  for (int i = kThreads - 1; i >= 0; --i) {
    const std::string key = fmt::format("k{}", i);
    EXPECT_TRUE(other->set(key, key, soon()).ok());
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(StoreTest, LargeValues) {
  const auto a = connect(), b = connect();
  std::string large(kMaxValue, 'x');
  large[12345] = 'y';
  // Threads at once, so that requests have to wait for room to be sent.
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back(
        [&, i] { EXPECT_TRUE(a->set(fmt::format("k{}", i), large, soon()).ok()); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(*b->get("k0", soon()) == large);
  EXPECT_TRUE(*b->get("k1", soon()) == large);

  large += 'z';
  EXPECT_EQ(a->set("k", large, soon()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(a->get(std::string(kMaxKey + 1, 'k'), soon()).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(a->set("k/", "", soon()).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(a->set("k", "still works", soon()).ok());
}

TEST_F(StoreTest, EncryptedOverTcp) {
  serve("127.0.0.1:0", kSecret);
  const auto a = connect(), b = connect();
  const std::string value(300'000, 'v');
  std::thread waiter([&] { EXPECT_TRUE(*b->wait("k", soon()) == value); });
  EXPECT_TRUE(a->set("k", value, soon()).ok());
  waiter.join();
}

// Clients may come before the server.
TEST_F(StoreTest, ConnectWaitsForTheServer) {
  options_.address = uniqueAddress();
  options_.server = "rank 0";
  const auto nobody = Store::connect(options_, Deadline::after(50ms));
  EXPECT_EQ(nobody.status().code(), StatusCode::kTimeout);
  EXPECT_EQ(toString(nobody.status()), "timeout: rank 0 is not there");

  std::thread early([options = options_] {
    const auto store = Store::connect(options, soon());
    EXPECT_TRUE(store.ok()) << store.status();
  });
  serve(options_.address, "");
  early.join();
}

TEST_F(StoreTest, ThousandWaitersOnOneServerThread) {
  constexpr int kClients = 1000;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlim_t needed = 3 * kClients + 200;  // Both ends of a connection, and a client's wake-up.
  if (limit.rlim_max < needed) GTEST_SKIP() << "needs " << needed << " descriptors";
  limit.rlim_cur = std::max(limit.rlim_cur, needed);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);

  std::vector<std::unique_ptr<Store>> clients;
  for (int i = 0; i < kClients; ++i) clients.push_back(connect());
  std::vector<Watch> watches;
  for (auto& client : clients) {
    auto watch = client->watch("go");
    ASSERT_TRUE(watch.ok());
    watches.push_back(*std::move(watch));
  }
  ASSERT_TRUE(waitForWaiters(kClients));
  ASSERT_TRUE(connect()->set("go", "now", soon()).ok());
  for (auto& watch : watches) EXPECT_EQ(*watch.next(soon()), (Entry{"go", "now"}));
}

}  // namespace
}  // namespace colla::rendezvous
