#include "c10d/call_order.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace colla::c10d {
namespace {

using namespace std::chrono_literals;

// Something that a test waits for.
class Event {
 public:
  void set() { promise_.set_value(); }
  bool await() const { return future_.wait_for(30s) == std::future_status::ready; }
  bool isSet() const { return future_.wait_for(0s) == std::future_status::ready; }

 private:
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future().share();
};

class CallOrderTest : public ::testing::Test {
 protected:
  CallOrderTest() { order_->setTimeout(1h); }
  // Threads of the callbacks use what a test has.
  ~CallOrderTest() override {
    const auto end = CallOrder::Clock::now() + 60s;
    while (callbacks_->pending() > 0) {
      if (CallOrder::Clock::now() > end) std::abort();
      std::this_thread::sleep_for(1ms);
    }
  }

  // A thread of the callbacks' runs `body` as what is attached to the operation with this hold.
  void runCallback(std::uint64_t hold, std::function<void()> body) {
    callbacks_->run([this, hold, body = std::move(body)] { order_->runHolding(hold, body); });
  }

  const std::shared_ptr<Callbacks> callbacks_ = std::make_shared<Callbacks>();
  const std::shared_ptr<CallOrder> order_ =
      std::make_shared<CallOrder>(callbacks_, [] { return true; });
  Event called_, returns_;
};

TEST_F(CallOrderTest, StartsAtOnceWhereNothingIsHeld) {
  int started = 0;
  EXPECT_EQ(order_->pass([&] { ++started; }), 1);
  order_->await();
  EXPECT_EQ(order_->pass([&] { ++started; }), 3);
  EXPECT_EQ(started, 2);
}

TEST_F(CallOrderTest, WhatACallbackCallsComesFirst) {
  std::vector<std::string> started;
  const auto hold = order_->hold();
  order_->pass([&] { started.emplace_back("later"); });
  order_->pass([&] { called_.set(); });
  EXPECT_TRUE(started.empty());
  runCallback(hold, [&] { EXPECT_EQ(order_->pass([&] { started.emplace_back("nested"); }), 0); });
  ASSERT_TRUE(called_.await());
  EXPECT_EQ(started, (std::vector<std::string>{"nested", "later"}));
}

TEST_F(CallOrderTest, WhatANestedOperationsCallbacksCallComesFirst) {
  std::vector<std::string> started;
  const auto hold = order_->hold();
  order_->pass([&] { called_.set(); });
  std::uint64_t inner = 0;
  runCallback(hold, [&] {
    inner = order_->hold();
    order_->pass([&] { started.emplace_back("nested"); });
    returns_.set();
  });
  ASSERT_TRUE(returns_.await());
  runCallback(inner, [&] { order_->pass([&] { started.emplace_back("nested twice"); }); });
  ASSERT_TRUE(called_.await());
  EXPECT_EQ(started, (std::vector<std::string>{"nested", "nested twice"}));
}

TEST_F(CallOrderTest, WhoStartsTheCallHimselfWaitsToo) {
  const auto hold = order_->hold();
  std::vector<std::string> started;
  order_->pass([&] { started.emplace_back("first"); });
  const auto blocking = std::async(std::launch::async, [&] {
    order_->await();
    called_.set();
  });
  EXPECT_FALSE(called_.isSet());
  runCallback(hold, [] {});
  ASSERT_TRUE(called_.await());
  EXPECT_EQ(started.size(), 1);
}

TEST_F(CallOrderTest, WhatWasCalledBeforeTheFutureWasAskedForIsNotHeld) {
  const auto first = order_->hold();
  order_->pass([&] { called_.set(); });
  const auto second = order_->hold();
  runCallback(first, [] {});
  EXPECT_TRUE(called_.await());
  runCallback(second, [] {});
}

TEST_F(CallOrderTest, ACallbackMayWaitForWhatItHolds) {
  const auto hold = order_->hold();
  const auto call = order_->pass([&] { called_.set(); });
  runCallback(hold, [&] {
    order_->letGo(call);
    EXPECT_TRUE(called_.await());
    returns_.set();
  });
  EXPECT_TRUE(returns_.await());
}

TEST_F(CallOrderTest, ACallbackThatDoesNotReturnHoldsNothingForLong) {
  order_->setTimeout(40ms);
  const auto hold = order_->hold();
  order_->pass([&] { called_.set(); });
  runCallback(hold, [&] { EXPECT_TRUE(returns_.await()); });
  EXPECT_TRUE(called_.await());
  order_->await();
  returns_.set();
}

TEST_F(CallOrderTest, HoldsNothingOnceItIsClosed) {
  EXPECT_NE(order_->hold(), 0);
  order_->pass([&] { called_.set(); });
  order_->close();
  EXPECT_TRUE(called_.await());
}

TEST_F(CallOrderTest, HoldsNothingForThoseWhoCallNoCollectives) {
  const auto order = std::make_shared<CallOrder>(callbacks_, [] { return false; });
  EXPECT_EQ(order->hold(), 0);
  order->pass([&] { called_.set(); });
  EXPECT_TRUE(called_.isSet());
}

}  // namespace
}  // namespace colla::c10d
