#include "launch/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace colla::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = Supervisor::Action::Kind;

class SupervisorTest : public ::testing::Test {
 protected:
  Supervisor make(int workers, int servers = 0) {
    return Supervisor({.workers = workers, .servers = servers, .timeout = 60s, .grace = 5s},
                      at(0s));
  }
  static TimePoint at(std::chrono::milliseconds time) { return TimePoint{} + time; }

  const End well_{.killed = false, .value = 0};
  const End failed_{.killed = false, .value = 3};
  const End crashed_{.killed = true, .value = SIGSEGV};
};

TEST_F(SupervisorTest, EndsWhenAllHaveEndedWell) {
  Supervisor job = make(2);
  EXPECT_EQ(job.ended(1, well_, at(1s)).kind, Kind::kNothing);
  EXPECT_EQ(job.ended(0, well_, at(2s)).kind, Kind::kEnd);
  EXPECT_EQ(job.cause(), Cause::kNone);
}

TEST_F(SupervisorTest, FirstFailureIsTheCauseAndItsConsequencesAreNot) {
  Supervisor job = make(4);
  EXPECT_EQ(job.ended(1, failed_, at(1s)).kind, Kind::kNothing);
  EXPECT_EQ(job.ended(0, {.killed = true, .value = SIGABRT}, at(1s)).kind, Kind::kNothing);
  EXPECT_EQ(job.nextDeadline(), at(1200ms));
  const auto action = job.tick(at(1200ms));
  EXPECT_EQ(action.kind, Kind::kSignal);
  EXPECT_EQ(action.signal, SIGTERM);
  EXPECT_EQ(job.ended(2, crashed_, at(2s)).kind, Kind::kNothing);
  EXPECT_EQ(job.ended(3, failed_, at(2s)).kind, Kind::kEnd);
  EXPECT_EQ(job.cause(), Cause::kFailed);
  EXPECT_EQ(job.culprit(), 1);
  EXPECT_EQ(job.endOf(1)->value, 3);
}

TEST_F(SupervisorTest, CrashThatShowsUpTogetherWithOtherFailuresIsTheCause) {
  Supervisor job = make(3);
  (void)job.ended(0, failed_, at(1s));
  (void)job.ended(2, crashed_, at(1100ms));
  EXPECT_EQ(job.ended(1, {.killed = true, .value = SIGKILL}, at(1150ms)).kind, Kind::kEnd);
  EXPECT_EQ(job.cause(), Cause::kFailed);
  EXPECT_EQ(job.culprit(), 2);
}

// It may end before the one that it has followed, and is none that failed by itself.
TEST_F(SupervisorTest, AWorkerThatOnlyFollowedIsNotTheCause) {
  const End followed{.killed = false, .value = kExitFollowed};
  const Supervisor::Options patient{.workers = 2, .timeout = {}, .grace = 5s, .patient = true};
  Supervisor job(patient, at(0s));
  (void)job.ended(0, followed, at(1s));
  EXPECT_EQ(job.tick(at(1300ms)).kind, Kind::kNothing);  // The one that failed is still to end.
  EXPECT_EQ(job.ended(1, failed_, at(3s)).kind, Kind::kEnd);
  EXPECT_EQ(job.culprit(), 1);
  EXPECT_EQ(job.endOf(0)->value, 1);  // The code has no meaning to others.

  Supervisor other(patient, at(0s));
  (void)other.ended(0, failed_, at(1s));
  (void)other.ended(1, followed, at(1100ms));
  EXPECT_EQ(other.culprit(), 0);
}

TEST_F(SupervisorTest, InterruptAfterAFailureDoesNotHideIt) {
  Supervisor job = make(2);
  (void)job.ended(0, failed_, at(1s));
  EXPECT_EQ(job.signalled(SIGINT, at(1s)).signal, SIGINT);
  EXPECT_EQ(job.ended(1, failed_, at(1s)).kind, Kind::kEnd);
  EXPECT_EQ(job.cause(), Cause::kFailed);
  EXPECT_EQ(job.culprit(), 0);
}

TEST_F(SupervisorTest, KillsAfterTheGracePeriodAndOnlyOnce) {
  Supervisor job = make(2);
  (void)job.ended(0, failed_, at(800ms));
  EXPECT_EQ(job.tick(at(1s)).signal, SIGTERM);
  EXPECT_EQ(job.nextDeadline(), at(6s));
  EXPECT_EQ(job.tick(at(5999ms)).kind, Kind::kNothing);
  EXPECT_EQ(job.tick(at(6s)).kind, Kind::kEnd);
  EXPECT_EQ(job.tick(at(7s)).kind, Kind::kNothing);
  EXPECT_EQ(job.signalled(SIGINT, at(7s)).kind, Kind::kNothing);
  EXPECT_EQ(job.ended(1, crashed_, at(8s)).kind, Kind::kNothing);
  EXPECT_EQ(job.culprit(), 0);
}

TEST_F(SupervisorTest, LastProcessThatFailsLeavesNobodyToAsk) {
  Supervisor job = make(2);
  (void)job.ended(0, well_, at(1s));
  EXPECT_EQ(job.ended(1, failed_, at(1s)).kind, Kind::kEnd);
  EXPECT_EQ(job.cause(), Cause::kFailed);
}

TEST_F(SupervisorTest, TimeoutNamesThoseThatRan) {
  Supervisor job = make(3);
  (void)job.ended(1, well_, at(1s));
  EXPECT_EQ(job.nextDeadline(), at(60s));
  EXPECT_EQ(job.tick(at(60s)).signal, SIGTERM);
  EXPECT_EQ(job.cause(), Cause::kTimeout);
  EXPECT_EQ(job.running(), (std::vector<int>{0, 2}));
  EXPECT_EQ(job.tick(at(65s)).kind, Kind::kEnd);
}

TEST_F(SupervisorTest, SignalIsPassedOnAndASecondInterruptKills) {
  Supervisor job = make(2);
  EXPECT_EQ(job.signalled(SIGUSR1, at(1s)).signal, SIGUSR1);
  EXPECT_EQ(job.cause(), Cause::kNone);
  EXPECT_EQ(job.signalled(SIGINT, at(2s)).signal, SIGINT);
  EXPECT_EQ(job.cause(), Cause::kSignal);
  EXPECT_EQ(job.ended(0, failed_, at(3s)).kind, Kind::kNothing);
  EXPECT_EQ(job.signalled(SIGTERM, at(3s)).signal, SIGTERM);
  EXPECT_EQ(job.signalled(SIGINT, at(3s)).kind, Kind::kEnd);
  EXPECT_EQ(job.cause(), Cause::kSignal);
  EXPECT_EQ(job.value(), SIGINT);
}

class PatientTest : public SupervisorTest {
 protected:
  Supervisor interrupted(int workers, int servers = 0) {
    Supervisor job(
        {.workers = workers, .servers = servers, .timeout = {}, .grace = 5s, .patient = true},
        at(0s));
    EXPECT_EQ(job.signalled(SIGINT, at(1s)).signal, SIGINT);
    EXPECT_EQ(job.nextDeadline(), TimePoint::max());
    EXPECT_EQ(job.tick(at(24h)).kind, Kind::kNothing);
    return job;
  }
};

TEST_F(PatientTest, ProcessesLeaveInTheirOwnTime) {
  Supervisor job = interrupted(4);
  EXPECT_EQ(job.ended(1, well_, at(2s)).kind, Kind::kNothing);
  EXPECT_EQ(job.ended(2, {.killed = true, .value = SIGINT}, at(2s)).kind, Kind::kNothing);
  EXPECT_EQ(job.ended(3, {.killed = false, .value = 128 + SIGINT}, at(2s)).kind, Kind::kNothing);
  EXPECT_EQ(job.nextDeadline(), TimePoint::max());
  EXPECT_EQ(job.ended(0, well_, at(1h)).kind, Kind::kEnd);
  EXPECT_EQ(job.cause(), Cause::kSignal);
}

TEST_F(PatientTest, SecondInterruptKills) {
  Supervisor job = interrupted(2);
  EXPECT_EQ(job.signalled(SIGINT, at(2s)).kind, Kind::kEnd);
  EXPECT_EQ(job.cause(), Cause::kSignal);
}

TEST_F(PatientTest, FailureMeanwhileEndsTheOthers) {
  Supervisor job = interrupted(3);
  (void)job.ended(1, crashed_, at(10s));
  EXPECT_EQ(job.cause(), Cause::kFailed);
  EXPECT_EQ(job.culprit(), 1);
  EXPECT_EQ(job.running(), (std::vector<int>{0, 2}));
  EXPECT_EQ(job.tick(at(10200ms)).signal, SIGTERM);
  EXPECT_EQ(job.tick(at(15200ms)).kind, Kind::kEnd);
  Supervisor again = interrupted(3);
  (void)again.ended(1, crashed_, at(10s));
  EXPECT_EQ(again.signalled(SIGINT, at(10s)).kind, Kind::kEnd);
}

TEST_F(PatientTest, OtherSignalsAndServersHaveTheGracePeriod) {
  Supervisor job = interrupted(2);
  EXPECT_EQ(job.signalled(SIGTERM, at(2s)).signal, SIGTERM);
  EXPECT_EQ(job.tick(at(7s)).kind, Kind::kEnd);
  Supervisor withServers = interrupted(1, 1);
  EXPECT_EQ(withServers.ended(0, well_, at(2s)).kind, Kind::kNothing);
  EXPECT_EQ(withServers.tick(at(7s)).kind, Kind::kEnd);
}

TEST_F(PatientTest, InterruptAfterAFailureIsNoRequest) {
  Supervisor job({.workers = 2, .timeout = {}, .grace = 5s, .patient = true}, at(0s));
  (void)job.ended(0, failed_, at(1s));
  EXPECT_EQ(job.signalled(SIGINT, at(1s)).signal, SIGINT);
  EXPECT_EQ(job.nextDeadline(), at(6s));
}

TEST_F(SupervisorTest, ServersHaveTheGracePeriodToFollowTheWorkers) {
  Supervisor job = make(1, 2);
  EXPECT_EQ(job.ended(0, well_, at(1s)).kind, Kind::kNothing);
  EXPECT_EQ(job.ended(1, well_, at(2s)).kind, Kind::kNothing);
  EXPECT_EQ(job.nextDeadline(), at(6s));
  EXPECT_EQ(job.tick(at(6s)).signal, SIGTERM);
  EXPECT_EQ(job.ended(2, {.killed = true, .value = SIGTERM}, at(7s)).kind, Kind::kEnd);
  EXPECT_EQ(job.cause(), Cause::kNone);
}

TEST_F(SupervisorTest, ServerThatFailsByItselfIsAFailureEvenThen) {
  Supervisor job = make(1, 1);
  (void)job.ended(0, well_, at(1s));
  EXPECT_EQ(job.ended(1, failed_, at(2s)).kind, Kind::kEnd);
  EXPECT_EQ(job.cause(), Cause::kFailed);
  EXPECT_EQ(job.culprit(), 1);
}

// A server that does not end by itself, nor when it is asked to.
TEST_F(SupervisorTest, ServersThatStayAreKilledAndThatIsNoFailure) {
  Supervisor job = make(1, 1);
  (void)job.ended(0, well_, at(1s));
  EXPECT_EQ(job.tick(at(6s)).signal, SIGTERM);
  EXPECT_EQ(job.nextDeadline(), at(11s));
  EXPECT_EQ(job.tick(at(11s)).kind, Kind::kEnd);
  EXPECT_EQ(job.ended(1, {.killed = true, .value = SIGKILL}, at(11s)).kind, Kind::kNothing);
  EXPECT_EQ(job.cause(), Cause::kNone);
}

class SpareTest : public SupervisorTest {
 protected:
  Supervisor make(int workers, int servers, int spare, bool patient = false) {
    return Supervisor({.workers = workers,
                       .servers = servers,
                       .timeout = 60s,
                       .grace = 5s,
                       .patient = patient,
                       .spareWorkers = spare},
                      at(0s));
  }
  const End killed_{.killed = true, .value = SIGKILL};
};

TEST_F(SpareTest, JobGoesOnWithoutAWorkerAndEndsWell) {
  Supervisor job = make(3, 1, 1);
  EXPECT_EQ(job.ended(2, killed_, at(1s)).kind, Kind::kNothing);
  EXPECT_THAT(job.lost(), IsEmpty());  // It might have been the first of many.
  EXPECT_EQ(job.nextDeadline(), at(1200ms));
  EXPECT_EQ(job.tick(at(1200ms)).kind, Kind::kNothing);
  EXPECT_THAT(job.lost(), ElementsAre(2));
  EXPECT_EQ(job.nextDeadline(), at(60s));
  (void)job.ended(0, well_, at(2s));
  (void)job.ended(1, well_, at(3s));
  EXPECT_EQ(job.nextDeadline(), at(8s));  // Now the server's time runs.
  EXPECT_EQ(job.ended(3, well_, at(4s)).kind, Kind::kEnd);
  EXPECT_EQ(job.cause(), Cause::kNone);
}

TEST_F(SpareTest, OneMoreThanCanBeSparedEndsTheJob) {
  Supervisor job = make(4, 0, 1);
  (void)job.ended(2, failed_, at(1s));
  (void)job.tick(at(2s));
  (void)job.ended(1, failed_, at(10s));
  EXPECT_EQ(job.cause(), Cause::kFailed);
  EXPECT_EQ(job.culprit(), 1);
  EXPECT_THAT(job.lost(), ElementsAre(2));
  EXPECT_EQ(job.tick(at(10200ms)).signal, SIGTERM);
}

TEST_F(SpareTest, WorkerZeroAndServersAreNeverSpared) {
  Supervisor workers = make(3, 0, 2);
  (void)workers.ended(0, failed_, at(1s));
  EXPECT_EQ(workers.culprit(), 0);
  Supervisor servers = make(3, 1, 2);
  (void)servers.ended(3, failed_, at(1s));
  EXPECT_EQ(servers.culprit(), 3);
  Supervisor notStarted = make(3, 0, 2);
  EXPECT_EQ(notStarted.notStarted(2, ENOENT).kind, Kind::kEnd);
  EXPECT_EQ(notStarted.cause(), Cause::kNotStarted);
}

TEST_F(SpareTest, WorkersThatFollowAServerAreNoLossAndTheServerIsToBlame) {
  Supervisor job = make(3, 1, 2);
  (void)job.ended(1, failed_, at(1000ms));
  (void)job.ended(2, failed_, at(1010ms));
  (void)job.ended(3, killed_, at(1020ms));
  EXPECT_EQ(job.cause(), Cause::kFailed);
  EXPECT_EQ(job.culprit(), 3);
  EXPECT_THAT(job.lost(), IsEmpty());
}

TEST_F(SpareTest, WorkerThatTakesTheOthersAlongIsToBlame) {
  Supervisor job = make(3, 0, 1);
  (void)job.ended(2, killed_, at(1000ms));
  (void)job.ended(0, failed_, at(1010ms));
  EXPECT_EQ(job.culprit(), 2);
  EXPECT_THAT(job.lost(), IsEmpty());
  EXPECT_EQ(job.value(), SIGKILL);
}

TEST_F(SpareTest, LastOfAllMayBeALossToo) {
  Supervisor job = make(2, 0, 1);
  (void)job.ended(0, well_, at(1s));
  EXPECT_EQ(job.ended(1, killed_, at(2s)).kind, Kind::kEnd);
  EXPECT_EQ(job.cause(), Cause::kNone);
  EXPECT_THAT(job.lost(), ElementsAre(1));
}

TEST_F(SpareTest, LossWhileTheOthersSaveAfterAnInterruptIsBorne) {
  Supervisor job = make(3, 0, 1, /*patient=*/true);
  (void)job.signalled(SIGINT, at(1s));
  (void)job.ended(2, killed_, at(2s));
  EXPECT_EQ(job.tick(at(3s)).kind, Kind::kNothing);
  EXPECT_THAT(job.lost(), ElementsAre(2));
  EXPECT_EQ(job.nextDeadline(), TimePoint::max());
  EXPECT_EQ(job.cause(), Cause::kSignal);
}

TEST_F(SupervisorTest, WhatCannotStartEndsTheJobAtOnce) {
  Supervisor job = make(2);
  EXPECT_EQ(job.notStarted(1, ENOENT).kind, Kind::kEnd);
  EXPECT_EQ(job.cause(), Cause::kNotStarted);
  EXPECT_EQ(job.value(), ENOENT);
}

TEST_F(SupervisorTest, LostOutputEndsTheJob) {
  Supervisor job = make(1);
  EXPECT_EQ(job.outputLost(EPIPE, at(1s)).signal, SIGTERM);
  EXPECT_EQ(job.outputLost(EPIPE, at(1s)).kind, Kind::kNothing);
  EXPECT_EQ(job.cause(), Cause::kOutputLost);
  EXPECT_EQ(job.value(), EPIPE);
}

}  // namespace
}  // namespace colla::launch
