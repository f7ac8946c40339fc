// What the first server orders, event by event, with the time passed in.
#include "ps/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace colla::ps {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using OrderKind = Order::Kind;

constexpr TimePoint kBeginning = TimePoint(1h);

std::vector<int> released(const Order& order) {
  std::vector<int> workers;
  for (const Order::Release& release : order.release) workers.push_back(release.worker);
  return workers;
}

// Two entries, of which the second comes first among the model's parameters.
class CoordinatorTest : public ::testing::Test {
 protected:
  void begin(PolicyOptions policy, int servers = 1, double clipNorm = 0, std::int64_t step = 0) {
    Coordinator::Options options{.servers = servers, .timeout = 10s};
    for (int worker = 0; worker < policy.workers; ++worker) {
      options.workers.push_back("rank " + std::to_string(worker));
    }
    coordinator_.emplace(std::move(options));
    coordinator_->declare(policy, clipNorm, {1, 0});
    coordinator_->start(step);
  }

  // A worker's step ends on all servers.
  std::vector<Order> finished(int worker, std::int64_t step, Finish finish = {}) {
    if (finish.present.empty()) finish.present = {1, 1};
    return coordinator_->finished(worker, step, std::move(finish), now_);
  }

  std::optional<Coordinator> coordinator_;
  TimePoint now_ = kBeginning;
};

TEST_F(CoordinatorTest, AStepIsOneUpdateOfAllWorkers) {
  begin({.workers = 2}, 1, 0, 7);
  EXPECT_THAT(finished(1, 7, {.share = 0.25, .samples = 3, .factor = 0.5, .present = {1, 0}}),
              IsEmpty());
  const auto orders =
      finished(0, 7, {.share = 0.75, .samples = 9, .factor = 0.5, .present = {0, 0}});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].kind, OrderKind::kUpdate);
  EXPECT_THAT(orders[0].take, ElementsAre(0, 1));
  EXPECT_THAT(released(orders[0]), ElementsAre(0, 1));
  EXPECT_THAT(orders[0].terms.present, ElementsAre(1, 0));
  EXPECT_EQ(orders[0].terms.factor, 0.5);
  EXPECT_EQ(orders[0].terms.gradScale, 1);
  EXPECT_EQ(orders[0].step, 8);
  EXPECT_EQ(orders[0].samples, 12);
  EXPECT_EQ(orders[0].reason, "step 8 takes the gradients of 2 of 2 workers");
  EXPECT_EQ(coordinator_->statistics().taken, 2);
  EXPECT_EQ(coordinator_->statistics().staleness, (Staleness{{0, 2}}));
}

TEST_F(CoordinatorTest, AStepHasArrivedWhenEveryServerHasAllOfIt) {
  begin({.workers = 1}, 3);
  EXPECT_THAT(coordinator_->reported(0, 0, now_), IsEmpty());
  EXPECT_THAT(finished(0, 0), IsEmpty());
  EXPECT_THAT(coordinator_->reported(0, 0, now_), SizeIs(1));
  // Nobody can report what does not exist.
  EXPECT_THAT(coordinator_->reported(-1, 0, now_), IsEmpty());
  EXPECT_THAT(coordinator_->reported(1, 0, now_), IsEmpty());
}

TEST_F(CoordinatorTest, ABackupWorkerIsDroppedAndTheSumIsMadeWhole) {
  begin({.workers = 3, .backup = 1});
  finished(0, 0, {.share = 0.25});
  auto orders = finished(2, 0, {.share = 0.25});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_THAT(orders[0].take, ElementsAre(0, 2));
  EXPECT_EQ(orders[0].terms.gradScale, 2);  // Half of the samples: the mean of these.
  EXPECT_EQ(orders[0].terms.meanScale, 2);
  orders = finished(1, 0, {.share = 0.5});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].kind, OrderKind::kRelease);
  EXPECT_THAT(orders[0].take, IsEmpty());
  EXPECT_THAT(released(orders[0]), ElementsAre(1));
  EXPECT_TRUE(orders[0].release[0].dropped);
  EXPECT_EQ(orders[0].reason, "dropped the gradients of rank 1 for step 1: their staleness is 1");
  EXPECT_THAT(coordinator_->takeNews(), ElementsAre(orders[0].reason));
  EXPECT_EQ(coordinator_->statistics().dropped, 1);
}

// With --backup auto time alone shows who is late.
TEST_F(CoordinatorTest, AStragglerIsLeftBehindAtItsDeadline) {
  begin({.workers = 3, .backup = PolicyOptions::kAuto});
  for (std::int64_t step = 0; step < 8; ++step, now_ += 10ms) {
    for (int worker = 0; worker < 3; ++worker) {
      EXPECT_THAT(finished(worker, step), SizeIs(worker == 2 ? 1 : 0));
      EXPECT_THAT(coordinator_->tick(now_), IsEmpty());
    }
  }
  EXPECT_EQ(coordinator_->nextDeadline(), TimePoint::max());
  finished(0, 8);
  finished(1, 8);
  EXPECT_THAT(coordinator_->tick(now_), IsEmpty());
  EXPECT_EQ(coordinator_->nextDeadline(), now_ + 50ms);
  EXPECT_THAT(coordinator_->tick(now_ + 49ms), IsEmpty());
  const auto orders = coordinator_->tick(now_ + 50ms);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_THAT(orders[0].take, ElementsAre(0, 1));
  EXPECT_EQ(orders[0].step, 9);
  EXPECT_THAT(coordinator_->takeNews(), ElementsAre(HasSubstr("worker 2 is a straggler")));
  // It comes a step late: dropped, and back in the race only if it was fast.
  const auto late = finished(2, 8);
  ASSERT_THAT(late, SizeIs(1));
  EXPECT_TRUE(late[0].release[0].dropped);
}

TEST_F(CoordinatorTest, StalenessIsCountedFromTheParametersThatAWorkerHad) {
  begin({.consistency = Consistency::kAsync, .workers = 2, .maxStaleness = 2});
  for (std::int64_t step = 0; step < 2; ++step) {
    const auto orders = finished(0, step, {.share = 0.5});
    ASSERT_THAT(orders, SizeIs(1));
    EXPECT_EQ(orders[0].terms.gradScale, 2);  // Its own samples' mean.
    EXPECT_EQ(orders[0].release[0].late, 0);
    EXPECT_EQ(orders[0].release[0].behind, step + 1);
  }
  auto orders = finished(1, 0);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].kind, OrderKind::kUpdate);
  EXPECT_EQ(orders[0].release[0].late, 2);
  EXPECT_EQ(orders[0].step, 3);
  for (const std::int64_t step : {2, 4, 5}) finished(0, step);
  orders = finished(1, 3);  // It has seen three updates, and there are six.
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_THAT(orders[0].take, IsEmpty());
  EXPECT_TRUE(orders[0].release[0].dropped);
  EXPECT_EQ(coordinator_->statistics().staleness, (Staleness{{0, 4}, {1, 1}, {2, 1}}));
}

TEST_F(CoordinatorTest, SspHoldsWhoIsTooFarAhead) {
  begin({.consistency = Consistency::kSsp, .workers = 2, .staleness = 1});
  EXPECT_THAT(released(finished(0, 0)[0]), ElementsAre(0));
  auto orders = finished(0, 1, {.share = 0.5});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].kind, OrderKind::kUpdate);
  EXPECT_EQ(orders[0].terms.gradScale, 1);  // By its share.
  EXPECT_THAT(orders[0].release, IsEmpty());
  orders = finished(1, 0);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_THAT(released(orders[0]), ElementsAre(0, 1));
  EXPECT_EQ(orders[0].release[0].behind, 1);
  EXPECT_EQ(orders[0].release[1].behind, 0);
}

TEST_F(CoordinatorTest, ALostWorkerEndsSyncAndIsNamed) {
  begin({.workers = 2});
  finished(0, 0);
  const auto orders = coordinator_->gone(1, /*finished=*/false, now_);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].kind, OrderKind::kFail);
  EXPECT_THAT(orders[0].reason, HasSubstr("rank 1 is lost: "));
  // Nothing comes after the end.
  EXPECT_THAT(coordinator_->gone(0, false, now_), IsEmpty());
  EXPECT_THAT(coordinator_->snapshot(), IsEmpty());
  EXPECT_THAT(coordinator_->tick(now_ + 1h), IsEmpty());
}

TEST_F(CoordinatorTest, ALostWorkerCompletesTheStepOfOthersWhereItCanBeSpared) {
  begin({.workers = 3, .backup = 1});
  finished(0, 0, {.empty = true});
  EXPECT_THAT(finished(1, 0), IsEmpty());
  const auto orders = coordinator_->gone(2, /*finished=*/false, now_);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_THAT(orders[0].take, ElementsAre(1));
  EXPECT_THAT(released(orders[0]), ElementsAre(1, 0));
}

TEST_F(CoordinatorTest, ALossBeforeTheStartEndsTheJobAndALeaveDoesNot) {
  for (const bool leaves : {true, false}) {
    coordinator_.emplace(Coordinator::Options{.workers = {"rank 0", "rank 1"}});
    const auto orders = coordinator_->gone(1, leaves, now_);
    ASSERT_THAT(orders, SizeIs(leaves ? 0 : 1));
    if (leaves) continue;
    EXPECT_EQ(orders[0].reason, "rank 1 is lost before the training began");
  }
}

TEST_F(CoordinatorTest, WorkersWithoutSamplesAreLetGoWithoutAnUpdate) {
  begin({.workers = 2}, 1, 0, 4);
  finished(0, 4, {.empty = true});
  auto orders = finished(1, 4, {.share = 0.25});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_THAT(orders[0].take, ElementsAre(1));
  EXPECT_EQ(orders[0].terms.gradScale, 4);
  finished(0, 5, {.empty = true});
  orders = finished(1, 5, {.empty = true});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].kind, OrderKind::kRelease);
  EXPECT_EQ(orders[0].step, 5);
  EXPECT_EQ(orders[0].reason, "step 6 has no gradients to add");
}

TEST_F(CoordinatorTest, EverybodyLearnsThatOneWouldLikeToStop) {
  begin({.consistency = Consistency::kAsync, .workers = 2});
  EXPECT_EQ(finished(0, 0)[0].stop, Stop::kNo);
  EXPECT_EQ(finished(1, 0, {.stop = Stop::kRequested})[0].stop, Stop::kRequested);
  EXPECT_EQ(finished(0, 1)[0].stop, Stop::kRequested);
  // Ctrl-C is stronger, and stays so.
  EXPECT_EQ(finished(0, 2, {.stop = Stop::kInterrupted})[0].stop, Stop::kInterrupted);
  EXPECT_EQ(finished(1, 2, {.stop = Stop::kRequested})[0].stop, Stop::kInterrupted);
}

// The one worker that evaluates lowers the rate of all, at once and for good.
TEST_F(CoordinatorTest, TheLowestPlateauCountsForEverybody) {
  begin({.consistency = Consistency::kAsync, .workers = 2});
  EXPECT_EQ(finished(1, 0, {.factor = 0.5})[0].terms.factor, 0.5);
  EXPECT_EQ(finished(0, 0, {.factor = 0.5, .plateau = 0.1})[0].terms.factor, 0.5 * 0.1);
  EXPECT_EQ(finished(1, 1, {.factor = 0.5})[0].terms.factor, 0.5 * 0.1);
}

// Other workers make the updates around it: the copy is of the step that was announced.
TEST_F(CoordinatorTest, TheSnapshotThatWorker0AnnouncedIsOfItsStep) {
  for (const double clipNorm : {0.0, 1.0}) {
    begin({.consistency = Consistency::kAsync, .workers = 2}, 1, clipNorm);
    std::vector<OrderKind> kinds;
    std::vector<std::int64_t> snapshots;
    const auto take = [&](std::vector<Order> orders) {
      while (!orders.empty()) {
        std::vector<Order> more;
        for (const Order& order : orders) {
          kinds.push_back(order.kind);
          if (order.kind == OrderKind::kSnapshot) snapshots.push_back(order.step);
          if (order.kind == OrderKind::kSum) more = coordinator_->squares(0, {});
        }
        orders = std::move(more);
      }
    };
    take(finished(0, 0, {.snapshotAt = 3}));
    for (std::int64_t step = 1; step < 5; ++step) take(finished(1, step));
    EXPECT_THAT(snapshots, ElementsAre(3)) << clipNorm;
    // Not while worker 0 reads one: it does not announce the next, or asked for a different one.
    take(finished(0, 5));
    take(finished(1, 6));
    take(finished(0, 7, {.snapshotAt = 10}));
    take(coordinator_->snapshot());
    for (std::int64_t step = 8; step < 12; ++step) take(finished(1, step));
    EXPECT_THAT(snapshots, ElementsAre(3, 8)) << clipNorm;
  }
}

TEST_F(CoordinatorTest, AStepThatNeverEndsNamesWhomItWaitedFor) {
  begin({.workers = 3}, 1, 0, 2);
  EXPECT_THAT(coordinator_->tick(now_), IsEmpty());
  EXPECT_EQ(coordinator_->nextDeadline(), TimePoint::max());  // Nobody waits.
  finished(1, 2);
  EXPECT_THAT(coordinator_->tick(now_), IsEmpty());
  EXPECT_EQ(coordinator_->nextDeadline(), now_ + 10s);
  EXPECT_THAT(coordinator_->tick(now_ + 9s), IsEmpty());
  const auto orders = coordinator_->tick(now_ + 10s);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].kind, OrderKind::kFail);
  EXPECT_EQ(orders[0].reason, "step 2 has waited 10.0 s for rank 0, rank 2 (collective_timeout)");
}

Squares squaresOf(int entry, double sum) {
  Squares squares;
  squares.add(entry, 0, sum);
  return squares;
}

// 9 and 16 on two servers, and 144 that a worker has beside them: a norm of 13.
TEST_F(CoordinatorTest, ClippingTakesTheNormOfAllServers) {
  begin({.workers = 1}, 2, /*clipNorm=*/6.5);
  finished(0, 0, {.present = {1, 1}, .squares = {{2, 144}}});
  auto orders = coordinator_->reported(0, 0, now_);
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].kind, OrderKind::kSum);
  EXPECT_THAT(orders[0].take, ElementsAre(0));
  EXPECT_THAT(orders[0].release, IsEmpty());
  EXPECT_EQ(orders[0].step, 0);
  EXPECT_THAT(coordinator_->squares(0, squaresOf(0, 9)), IsEmpty());
  orders = coordinator_->squares(1, squaresOf(1, 16));
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].kind, OrderKind::kApply);
  EXPECT_NEAR(orders[0].scale, 0.5, 1e-6);
  EXPECT_EQ(orders[0].terms.gradScale, orders[0].scale);
  EXPECT_EQ(orders[0].step, 1);
  EXPECT_THAT(released(orders[0]), ElementsAre(0));
  EXPECT_THAT(coordinator_->squares(1, squaresOf(1, 16)), IsEmpty());  // Nobody asked.
}

// Servers have one place for sums: what is decided meanwhile waits until they are applied.
TEST_F(CoordinatorTest, WhatIsDecidedWhileServersSumIsHeldBack) {
  begin({.consistency = Consistency::kAsync, .workers = 2}, 1, /*clipNorm=*/1);
  EXPECT_EQ(finished(0, 0)[0].kind, OrderKind::kSum);
  EXPECT_THAT(finished(1, 0), IsEmpty());
  EXPECT_THAT(coordinator_->snapshot(), IsEmpty());
  auto orders = coordinator_->squares(0, squaresOf(0, 4));
  ASSERT_THAT(orders, SizeIs(2));
  EXPECT_EQ(orders[0].kind, OrderKind::kApply);
  EXPECT_NEAR(orders[0].scale, 0.5, 1e-6);
  EXPECT_EQ(orders[1].kind, OrderKind::kSum);
  EXPECT_THAT(orders[1].take, ElementsAre(1));
  // Worker 1 is lost: its gradients were whole, and count. Then comes the snapshot, of step 2.
  EXPECT_THAT(coordinator_->gone(1, false, now_), IsEmpty());
  orders = coordinator_->squares(0, squaresOf(0, 0.25));
  ASSERT_THAT(orders, SizeIs(2));
  EXPECT_EQ(orders[0].kind, OrderKind::kApply);
  EXPECT_EQ(orders[0].scale, 1);
  EXPECT_EQ(orders[1].kind, OrderKind::kSnapshot);
  EXPECT_EQ(orders[1].step, 2);
}

TEST_F(CoordinatorTest, StatisticsGoOnWithTheNextEpoch) {
  begin({.workers = 1});
  finished(0, 0, {.samples = 5});
  const Statistics before = coordinator_->statistics();
  coordinator_.emplace(Coordinator::Options{.workers = {"rank 0"}});
  coordinator_->declare({.workers = 1}, 0, {0, 1});
  coordinator_->start(1, before);
  const auto orders = finished(0, 1, {.samples = 6});
  ASSERT_THAT(orders, SizeIs(1));
  EXPECT_EQ(orders[0].step, 2);
  EXPECT_EQ(orders[0].samples, 11);
  EXPECT_EQ(coordinator_->statistics().taken, 2);
}

}  // namespace
}  // namespace colla::ps
