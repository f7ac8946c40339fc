// What `colla run` says and ends with when a process could not be started, or one was lost just
// before the end.
#include "launch/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <csignal>

namespace colla::launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using namespace std::chrono_literals;

Report reportOf(const Supervisor& supervisor, const RunOptions& options = {}) {
  Plan plan;
  plan.program = "/bin/train";
  plan.host = "a";
  for (int rank = 0; rank < 2; ++rank) plan.processes.push_back({Role::kWorker, rank, "a", {}});
  const auto output = Output::create(plan, options);
  EXPECT_TRUE(output.ok()) << output.status();
  return makeReport(supervisor, plan, options, *output);
}

Report notStarted(int error) {
  Supervisor supervisor({.workers = 2, .timeout = {}}, TimePoint());
  static_cast<void>(supervisor.notStarted(1, error));
  return reportOf(supervisor);
}

TEST(ReportTest, WhatTheMachineLacksIsNotTheProgramsFault) {
  const Report busy = notStarted(EAGAIN);
  EXPECT_EQ(busy.exitCode, 1);
  EXPECT_THAT(busy.text, AllOf(HasSubstr("cannot start worker 1 on host a: /bin/train"),
                               HasSubstr("ulimit -u")));
  EXPECT_EQ(notStarted(ENOMEM).exitCode, 1);
  EXPECT_EQ(notStarted(E2BIG).exitCode, 1);
}

TEST(ReportTest, ProgramsThatCantBeRunHaveTheShellsCodes) {
  EXPECT_EQ(notStarted(ENOENT).exitCode, 127);
  EXPECT_THAT(notStarted(ENOENT).text, HasSubstr("interpreter"));
  EXPECT_EQ(notStarted(EACCES).exitCode, 126);
  EXPECT_EQ(notStarted(ENOEXEC).exitCode, 126);
}

// The job may be over before it shows whether the loss is one to bear: it is told all the same.
TEST(ReportTest, WorkerThatIsLostJustBeforeAnInterruptIsNamed) {
  RunOptions options;
  for (const bool patient : {false, true}) {
    options.patient = patient;
    Supervisor supervisor({.workers = 2, .timeout = {}, .patient = patient, .spareWorkers = 1},
                          TimePoint());
    static_cast<void>(supervisor.ended(1, {.killed = true, .value = SIGKILL}, TimePoint(1000ms)));
    static_cast<void>(supervisor.signalled(SIGINT, TimePoint(1010ms)));
    static_cast<void>(
        supervisor.ended(0, {.killed = false, .value = 128 + SIGINT}, TimePoint(1020ms)));
    const Report report = reportOf(supervisor, options);
    EXPECT_EQ(report.exitCode, 128 + SIGINT);
    EXPECT_THAT(report.text, HasSubstr("without worker 1, which was killed by SIGKILL"));
  }
}

}  // namespace
}  // namespace colla::launch
