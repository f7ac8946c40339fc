// Jobs that go on without some of their workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "support/colla_process.h"

namespace colla::launch {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// Workers and servers that wait to be told: USR1 lets a worker end well, and servers follow by
// themselves once the launcher asks them to.
const std::vector<std::string> kJob = {
    "/bin/sh", "-c",
    "trap 'exit 0' USR1; echo last words of $COLLA_ROLE $COLLA_RANK >&2; echo ready; "
    "while :; do sleep 0.01; done"};

std::vector<std::string> runWith(std::vector<std::string> flags) {
  flags.insert(flags.begin(), "run");
  flags.insert(flags.end(), {"--grace", "0.5", "--"});
  flags.insert(flags.end(), kJob.begin(), kJob.end());
  return flags;
}

TEST(RunSpare, GoesOnWithoutAKilledWorkerAndSaysSo) {
  CollaProcess colla(runWith({"-np", "3", "--ps", "1", "--spare-workers", "2"}));
  ASSERT_TRUE(colla.says("ready", 4)) << colla.err();
  kill(colla.worker(2), SIGKILL);
  ASSERT_TRUE(colla.complains("the job goes on without it")) << colla.err();
  EXPECT_THAT(
      colla.err(),
      AllOf(HasSubstr("colla run: worker 2 on host "), HasSubstr("was killed by SIGKILL (signal 9"),
            HasSubstr("the job goes on without it (1 of 2 spare); its last lines on "
                      "standard error:\n  | last words of worker 2\n")));
  EXPECT_NE(colla.worker(1), 0);
  kill(colla.worker(1), SIGUSR1);
  kill(colla.worker(0), SIGUSR1);
  EXPECT_EQ(colla.wait(), 0) << colla.err();
  EXPECT_THAT(colla.err(), HasSubstr("colla run: the job is done without worker 2, which was "
                                     "killed by SIGKILL (signal 9"));
  EXPECT_TRUE(colla.gone());
}

TEST(RunSpare, OneLossTooManyEndsTheJobWithTheLastOne) {
  CollaProcess colla(runWith({"-np", "4", "--spare-workers", "1"}));
  ASSERT_TRUE(colla.says("ready", 4)) << colla.err();
  kill(colla.worker(3), SIGKILL);
  ASSERT_TRUE(colla.complains("without it (1 of 1 spare)")) << colla.err();
  kill(colla.worker(1), SIGKILL);
  EXPECT_EQ(colla.wait(), 128 + SIGKILL);
  EXPECT_THAT(colla.err(), AllOf(HasSubstr("colla run: worker 1 on host "),
                                 HasSubstr("(the job had gone on without worker 3, which was ")));
  EXPECT_TRUE(colla.gone());
}

class RunSpareNever : public ::testing::TestWithParam<const char*> {};

TEST_P(RunSpareNever, EndsTheJob) {
  CollaProcess colla(runWith({"-np", "3", "--ps", "1", "--spare-workers", "2"}));
  ASSERT_TRUE(colla.says("ready", 4)) << colla.err();
  const std::string victim = GetParam();
  const pid_t pid = colla.member(victim, 0);
  ASSERT_NE(pid, 0);
  kill(pid, SIGKILL);
  EXPECT_EQ(colla.wait(), 128 + SIGKILL);
  EXPECT_THAT(colla.err(),
              AllOf(HasSubstr("colla run: " + victim + " 0 on host "), Not(HasSubstr("goes on"))));
  EXPECT_TRUE(colla.gone());
}

INSTANTIATE_TEST_SUITE_P(Roles, RunSpareNever, ::testing::Values("worker", "ps"));

TEST(RunSpare, WithoutTheFlagNothingChanges) {
  CollaProcess colla(runWith({"-np", "3"}));
  ASSERT_TRUE(colla.says("ready", 3)) << colla.err();
  kill(colla.worker(2), SIGKILL);
  EXPECT_EQ(colla.wait(), 128 + SIGKILL);
  EXPECT_THAT(colla.err(), AllOf(HasSubstr("colla run: worker 2 on host "),
                                 EndsWith("  | last words of worker 2\n")));
}

}  // namespace
}  // namespace colla::launch
