#include "ps/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colla::ps {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr TimePoint kStart = TimePoint(1h);

std::unique_ptr<Policy> sync(int workers, int backup = 0, std::int64_t step = 0) {
  return makePolicy({.consistency = Consistency::kSync, .workers = workers, .backup = backup},
                    step);
}

TEST(SyncPolicyTest, WaitsForEverybody) {
  const auto policy = sync(3, 0, 7);
  EXPECT_THAT(policy->arrived({0, 7}, kStart), IsEmpty());
  EXPECT_THAT(policy->arrived({2, 7}, kStart), IsEmpty());
  EXPECT_THAT(policy->waitsFor(), ElementsAre(1));
  const auto decisions = policy->arrived({1, 7}, kStart);
  ASSERT_THAT(decisions, SizeIs(1));
  EXPECT_THAT(decisions[0].take, ElementsAre(0, 1, 2));
  EXPECT_THAT(decisions[0].release, UnorderedElementsAre(0, 1, 2));
  EXPECT_THAT(decisions[0].drop, IsEmpty());
}

TEST(SyncPolicyTest, BackupsTakeTheFirstAndDropTheRest) {
  const auto policy = sync(3, 1);
  EXPECT_THAT(policy->arrived({2, 0}, kStart), IsEmpty());
  auto decisions = policy->arrived({0, 0}, kStart);
  ASSERT_THAT(decisions, SizeIs(1));
  EXPECT_THAT(decisions[0].take, ElementsAre(0, 2));
  decisions = policy->arrived({1, 0}, kStart);
  ASSERT_THAT(decisions, SizeIs(1));
  EXPECT_THAT(decisions[0].take, IsEmpty());
  ASSERT_THAT(decisions[0].drop, SizeIs(1));
  EXPECT_EQ(decisions[0].drop[0].worker, 1);
  EXPECT_EQ(decisions[0].drop[0].late, 1);
  EXPECT_THAT(decisions[0].release, ElementsAre(1));
}

TEST(SyncPolicyTest, AStepWithoutSamplesIsNotWaitedForAsABackup) {
  const auto policy = sync(3, 1);
  // Two have nothing left: the third must be waited for, or its samples are lost.
  EXPECT_THAT(policy->arrived({0, 0, true}, kStart), IsEmpty());
  EXPECT_THAT(policy->arrived({1, 0, true}, kStart), IsEmpty());
  auto decisions = policy->arrived({2, 0}, kStart);
  ASSERT_THAT(decisions, SizeIs(1));
  EXPECT_THAT(decisions[0].take, ElementsAre(2));
  EXPECT_THAT(decisions[0].release, UnorderedElementsAre(0, 1, 2));
  // Nobody has anything left: everybody is let go, and no update is made.
  EXPECT_THAT(policy->arrived({0, 1, true}, kStart), IsEmpty());
  EXPECT_THAT(policy->arrived({1, 1, true}, kStart), IsEmpty());
  decisions = policy->arrived({2, 1, true}, kStart);
  ASSERT_THAT(decisions, SizeIs(1));
  EXPECT_THAT(decisions[0].take, IsEmpty());
  EXPECT_THAT(decisions[0].release, UnorderedElementsAre(0, 1, 2));
}

TEST(SyncPolicyTest, ALostWorkerEndsTheJob) {
  const auto policy = sync(2);
  EXPECT_THAT(policy->arrived({0, 0}, kStart), IsEmpty());
  const auto decisions = policy->gone(1, false, kStart);
  EXPECT_THAT(std::string(decisions.status().message()), HasSubstr("--backup"));
}

TEST(SyncPolicyTest, ALostBackupWorkerDoesNot) {
  const auto policy = sync(3, 1);
  EXPECT_THAT(policy->arrived({0, 0}, kStart), IsEmpty());
  EXPECT_TRUE(policy->gone(1, false, kStart).ok());
  auto decisions = policy->arrived({2, 0}, kStart);
  ASSERT_THAT(decisions, SizeIs(1));
  EXPECT_THAT(decisions[0].take, ElementsAre(0, 2));
  // From now on both are needed.
  EXPECT_THAT(policy->arrived({2, 1}, kStart), IsEmpty());
  EXPECT_FALSE(policy->gone(0, false, kStart).ok());
}

// The step waits for two of three. Worker 2 has finished for good, so one of the two that are left
// is enough.
TEST(SyncPolicyTest, AWorkerThatLeavesCompletesTheStep) {
  const auto policy = sync(3, 1);
  EXPECT_THAT(policy->arrived({0, 0}, kStart), IsEmpty());
  auto decisions = policy->gone(2, true, kStart);
  ASSERT_TRUE(decisions.ok()) << decisions.status();
  ASSERT_THAT(*decisions, SizeIs(1));
  EXPECT_THAT(decisions->at(0).take, ElementsAre(0));
  EXPECT_THAT(decisions->at(0).release, ElementsAre(0));
  // The next step has begun, and nobody waits in it yet.
  decisions = policy->gone(1, false, kStart);
  ASSERT_TRUE(decisions.ok()) << decisions.status();
  EXPECT_THAT(*decisions, IsEmpty());
}

// Worker 0 has no samples left, so the step waits for both others, backup or not, until one of them
// is lost.
TEST(SyncPolicyTest, WhoIsWaitedForAndLostCompletesTheStep) {
  const auto policy = sync(3, 1);
  EXPECT_THAT(policy->arrived({0, 0, true}, kStart), IsEmpty());
  EXPECT_THAT(policy->arrived({1, 0}, kStart), IsEmpty());
  EXPECT_THAT(policy->waitsFor(), ElementsAre(2));
  const auto decisions = policy->gone(2, false, kStart);
  ASSERT_TRUE(decisions.ok()) << decisions.status();
  ASSERT_THAT(*decisions, SizeIs(1));
  EXPECT_THAT(decisions->at(0).take, ElementsAre(1));
  EXPECT_THAT(decisions->at(0).release, UnorderedElementsAre(0, 1));
}

class AutoBackupTest : public ::testing::Test {
 protected:
  // One step of 10 ms in which everybody comes.
  void step() {
    for (int worker = 0; worker < 4; ++worker) {
      const auto decisions = policy_->arrived({worker, step_}, now_);
      EXPECT_THAT(decisions, SizeIs(worker == 3 ? 1 : 0));
    }
    now_ += 10ms;
    ++step_;
  }

  std::unique_ptr<Policy> policy_ = sync(4, PolicyOptions::kAuto);
  TimePoint now_ = kStart;
  std::int64_t step_ = 0;
};

TEST_F(AutoBackupTest, WaitsUntilOneIsLateAndTellsIt) {
  for (int i = 0; i < 8; ++i) step();
  for (int worker = 0; worker < 3; ++worker) {
    EXPECT_THAT(policy_->arrived({worker, step_}, now_), IsEmpty());
  }
  EXPECT_EQ(policy_->nextDeadline(), now_ + 50ms);  // 3 x 10 ms is less.
  EXPECT_THAT(policy_->tick(now_ + 49ms), IsEmpty());
  auto decisions = policy_->tick(now_ + 50ms);
  ASSERT_THAT(decisions, SizeIs(1));
  EXPECT_THAT(decisions[0].take, ElementsAre(0, 1, 2));
  EXPECT_THAT(policy_->takeNews(),
              ElementsAre(HasSubstr("worker 3 is a straggler: step 9 has waited 50 ms")));
  ++step_;
  // It is not waited for any more.
  for (int worker = 0; worker < 3; ++worker) decisions = policy_->arrived({worker, step_}, now_);
  ASSERT_THAT(decisions, SizeIs(1));
  ++step_;
  // What it brings late is dropped; what it brings in time counts, and it is back.
  decisions = policy_->arrived({3, step_ - 2}, now_);
  ASSERT_THAT(decisions, SizeIs(1));
  EXPECT_THAT(decisions[0].drop, SizeIs(1));
  EXPECT_THAT(policy_->arrived({3, step_}, now_), IsEmpty());
  EXPECT_THAT(policy_->takeNews(), ElementsAre(HasSubstr("worker 3 keeps pace again")));
  for (int worker = 0; worker < 3; ++worker) decisions = policy_->arrived({worker, step_}, now_);
  ASSERT_THAT(decisions, SizeIs(1));
  EXPECT_THAT(decisions[0].take, ElementsAre(0, 1, 2, 3));
}

TEST_F(AutoBackupTest, NeverLeavesMoreThanHalfBehind) {
  for (int i = 0; i < 8; ++i) step();
  EXPECT_THAT(policy_->arrived({0, step_}, now_), IsEmpty());
  EXPECT_EQ(policy_->nextDeadline(), TimePoint::max());
}

// It has lost half a second once, and is as fast as the others again: it always comes in the middle
// of their next step, and would be dropped for ever.
TEST_F(AutoBackupTest, WhoIsFastAgainNeedNotOvertakeTheOthers) {
  for (int i = 0; i < 8; ++i) step();
  for (int worker = 0; worker < 3; ++worker) policy_->arrived({worker, step_}, now_);
  now_ += 50ms;
  EXPECT_THAT(policy_->tick(now_), SizeIs(1));
  EXPECT_THAT(policy_->takeNews(), SizeIs(1));
  const std::int64_t missed = step_++;
  now_ += 450ms;
  EXPECT_THAT(policy_->arrived({3, missed}, now_)[0].drop, SizeIs(1));
  EXPECT_THAT(policy_->takeNews(), IsEmpty());  // That step took it half a second.
  const std::int64_t begun = step_;
  now_ += 5ms;
  std::vector<Decision> decisions;
  for (int worker = 0; worker < 3; ++worker) decisions = policy_->arrived({worker, step_}, now_);
  EXPECT_THAT(decisions, SizeIs(1));
  ++step_;
  now_ += 5ms;
  EXPECT_THAT(policy_->arrived({3, begun}, now_)[0].drop, SizeIs(1));
  EXPECT_THAT(policy_->takeNews(), ElementsAre(HasSubstr("worker 3 keeps pace again")));
  now_ += 5ms;
  for (int worker = 0; worker < 3; ++worker) {
    EXPECT_THAT(policy_->arrived({worker, step_}, now_), IsEmpty());
  }
  now_ += 5ms;
  decisions = policy_->arrived({3, step_}, now_);
  ASSERT_THAT(decisions, SizeIs(1));
  EXPECT_THAT(decisions[0].take, ElementsAre(0, 1, 2, 3));
}

// Whether it was found to be late before or not.
TEST_F(AutoBackupTest, ALostWorkerIsLeftBehindForGood) {
  for (int i = 0; i < 8; ++i) step();
  for (int worker = 0; worker < 3; ++worker) policy_->arrived({worker, step_}, now_);
  EXPECT_THAT(policy_->tick(now_ + 50ms), SizeIs(1));
  ++step_;
  EXPECT_THAT(policy_->arrived({0, step_}, now_), IsEmpty());
  auto decisions = policy_->gone(3, false, now_);
  ASSERT_TRUE(decisions.ok()) << decisions.status();
  EXPECT_THAT(*decisions, IsEmpty());
  EXPECT_THAT(policy_->waitsFor(), ElementsAre(1, 2));
  EXPECT_THAT(policy_->arrived({1, step_}, now_), IsEmpty());
  decisions = policy_->gone(2, false, now_);
  ASSERT_TRUE(decisions.ok()) << decisions.status();
  ASSERT_THAT(*decisions, SizeIs(1));
  EXPECT_THAT(decisions->at(0).take, ElementsAre(0, 1));
  ++step_;
  // That was half of them: the others are all waited for, and needed.
  EXPECT_THAT(policy_->arrived({0, step_}, now_), IsEmpty());
  EXPECT_EQ(policy_->nextDeadline(), TimePoint::max());
  decisions = policy_->gone(1, false, now_);
  EXPECT_THAT(std::string(decisions.status().message()), HasSubstr("no more than half"));
}

TEST_F(AutoBackupTest, StragglersAreNeededOnceOthersAreLost) {
  for (int i = 0; i < 8; ++i) step();
  for (int worker = 0; worker < 2; ++worker) policy_->arrived({worker, step_}, now_);
  EXPECT_THAT(policy_->tick(now_ + 50ms), SizeIs(1));
  EXPECT_THAT(policy_->takeNews(), SizeIs(2));
  ++step_;
  EXPECT_THAT(policy_->arrived({0, step_}, now_), IsEmpty());
  const auto decisions = policy_->gone(1, false, now_);
  ASSERT_TRUE(decisions.ok()) << decisions.status();
  EXPECT_THAT(*decisions, IsEmpty());
  EXPECT_THAT(policy_->takeNews(), ElementsAre(HasSubstr("wait for worker 2 again: worker 1"),
                                               HasSubstr("wait for worker 3 again: worker 1")));
  EXPECT_THAT(policy_->waitsFor(), ElementsAre(2, 3));
  // One of them will do.
  EXPECT_THAT(policy_->arrived({2, step_}, now_), IsEmpty());
  EXPECT_EQ(policy_->nextDeadline(), now_ + 50ms);
}

TEST(AsyncPolicyTest, TakesEachAsItComes) {
  const auto policy = makePolicy({.consistency = Consistency::kAsync, .workers = 2}, 0);
  const auto decisions = policy->arrived({1, 0}, kStart);
  ASSERT_THAT(decisions, SizeIs(1));
  EXPECT_THAT(decisions[0].take, ElementsAre(1));
  EXPECT_THAT(decisions[0].release, ElementsAre(1));
  EXPECT_TRUE(policy->gone(1, false, kStart).ok());
  EXPECT_FALSE(policy->gone(0, false, kStart).ok());
}

TEST(AsyncPolicyTest, RefusesWhatIsTooOld) {
  const auto policy =
      makePolicy({.consistency = Consistency::kAsync, .workers = 2, .maxStaleness = 1}, 0);
  for (std::int64_t step = 0; step < 2; ++step) policy->arrived({0, step}, kStart);
  auto decisions = policy->arrived({1, 0}, kStart);
  ASSERT_THAT(decisions, SizeIs(1));
  EXPECT_THAT(decisions[0].take, IsEmpty());
  ASSERT_THAT(decisions[0].drop, SizeIs(1));
  EXPECT_EQ(decisions[0].drop[0].late, 2);
  EXPECT_THAT(decisions[0].release, ElementsAre(1));
  decisions = policy->arrived({1, 1}, kStart);
  EXPECT_THAT(decisions[0].take, ElementsAre(1));
}

TEST(SspPolicyTest, HoldsWhoIsTooFarAhead) {
  const auto policy =
      makePolicy({.consistency = Consistency::kSsp, .workers = 2, .staleness = 2}, 0);
  for (int clock = 0; clock < 2; ++clock) {
    const auto decisions = policy->arrived({0, clock}, kStart);
    ASSERT_THAT(decisions, SizeIs(1));
    EXPECT_FALSE(decisions[0].whole);
    EXPECT_THAT(decisions[0].take, ElementsAre(0));
    EXPECT_THAT(decisions[0].release, ElementsAre(0));
  }
  auto decisions = policy->arrived({0, 2}, kStart);  // Three ahead.
  EXPECT_THAT(decisions[0].take, ElementsAre(0));
  EXPECT_THAT(decisions[0].release, IsEmpty());
  EXPECT_THAT(policy->waitsFor(), ElementsAre(1));
  decisions = policy->arrived({1, 3}, kStart);
  EXPECT_THAT(decisions[0].release, ElementsAre(0, 1));
}

TEST(SspPolicyTest, AClockThatIsGoneHoldsNobody) {
  const auto policy =
      makePolicy({.consistency = Consistency::kSsp, .workers = 2, .staleness = 1}, 0);
  policy->arrived({0, 0}, kStart);
  EXPECT_THAT(policy->arrived({0, 1}, kStart)[0].release, IsEmpty());
  const auto decisions = policy->gone(1, false, kStart);
  ASSERT_TRUE(decisions.ok());
  EXPECT_THAT(decisions->at(0).release, ElementsAre(0));
}

TEST(AsyncPolicyTest, MakesNoMoreUpdatesThanWanted) {
  for (const Consistency consistency : {Consistency::kAsync, Consistency::kSsp}) {
    const auto policy = makePolicy(
        {.consistency = consistency, .workers = 2, .staleness = 9, .limit = 5}, /*step=*/4);
    EXPECT_THAT(policy->arrived({0, 4}, kStart)[0].take, ElementsAre(0));
    const auto decisions = policy->arrived({1, 4}, kStart);
    EXPECT_THAT(decisions[0].take, IsEmpty());
    EXPECT_THAT(decisions[0].release, ElementsAre(1));
  }
}

TEST(SspPolicyTest, NoStalenessIsSync) {
  const auto policy = makePolicy({.consistency = Consistency::kSsp, .workers = 2}, 0);
  EXPECT_THAT(policy->arrived({0, 0}, kStart), IsEmpty());
  const auto decisions = policy->arrived({1, 0}, kStart);
  ASSERT_THAT(decisions, SizeIs(1));
  EXPECT_THAT(decisions[0].take, ElementsAre(0, 1));
}

TEST(SspPolicyTest, NoStalenessGoesOnWithoutALostClock) {
  const auto policy = makePolicy({.consistency = Consistency::kSsp, .workers = 3}, 0);
  EXPECT_THAT(policy->arrived({0, 0}, kStart), IsEmpty());
  EXPECT_THAT(policy->arrived({2, 0}, kStart), IsEmpty());
  auto decisions = policy->gone(1, false, kStart);
  ASSERT_TRUE(decisions.ok()) << decisions.status();
  ASSERT_THAT(*decisions, SizeIs(1));
  EXPECT_THAT(decisions->at(0).take, ElementsAre(0, 2));
  EXPECT_FALSE(decisions->at(0).whole);  // Each by its share, as with staleness.
  EXPECT_TRUE(policy->gone(2, false, kStart).ok());
  EXPECT_THAT(policy->arrived({0, 1}, kStart), SizeIs(1));
  EXPECT_FALSE(policy->gone(0, false, kStart).ok());
}

TEST(StalenessTest, HistogramGroupsWhatIsRare) {
  EXPECT_EQ(histogram({}), "");
  EXPECT_EQ(histogram({{0, 5}, {7, 1}, {8, 2}, {15, 1}, {16, 4}, {409, 1}}),
            "0: 5, 7: 1, 8-15: 3, 16-31: 4, 256-511: 1");
}

TEST(PolicyOptionsTest, WhatCannotBeIsRefused) {
  EXPECT_THAT(std::string(validate({.workers = 3, .backup = 3}).message()), HasSubstr("--backup"));
  EXPECT_TRUE(validate({.workers = 3, .backup = 2}).ok());
  EXPECT_TRUE(validate({.workers = 3, .backup = PolicyOptions::kAuto}).ok());
  EXPECT_FALSE(validate({.workers = 3, .maxStaleness = -1}).ok());
  EXPECT_FALSE(validate({.workers = 3, .staleness = -1}).ok());
}

}  // namespace
}  // namespace colla::ps
