// What `colla run` says and ends with when a process could not be started.
#include "launch/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace colla::launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Report notStarted(int error) {
  Supervisor::Options watched;
  watched.workers = 2;
  Supervisor supervisor(watched, TimePoint());
  static_cast<void>(supervisor.notStarted(1, error));
  Plan plan;
  plan.program = "/bin/train";
  plan.host = "a";
  for (int rank = 0; rank < 2; ++rank) plan.processes.push_back({Role::kWorker, rank, {}});
  const RunOptions options;
  const auto output = Output::create(plan, options);
  EXPECT_TRUE(output.ok()) << output.status();
  return makeReport(supervisor, plan, options, *output);
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

}  // namespace
}  // namespace colla::launch
