// What happens to signals that `colla run` gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "support/colla_process.h"

namespace colla::launch {
namespace {

using ::testing::HasSubstr;

class RunSignal : public ::testing::TestWithParam<int> {};

TEST_P(RunSignal, IsPassedOnAndEndsTheJob) {
  CollaProcess colla({"run", "-np", "2", "--", COLLA_PROBE, "wait"});
  ASSERT_TRUE(colla.says("ready", 2));
  kill(colla.pid(), GetParam());
  EXPECT_EQ(colla.wait(), 128 + GetParam());
  EXPECT_THAT(colla.err(), HasSubstr("colla run: ended by SIG"));
  EXPECT_TRUE(colla.gone());
}

INSTANTIATE_TEST_SUITE_P(All, RunSignal, ::testing::Values(SIGINT, SIGTERM, SIGHUP));

TEST(RunSignals, SecondInterruptKills) {
  CollaProcess colla({"run", "-np", "2", "--grace", "600", "--", COLLA_PROBE, "signals"});
  ASSERT_TRUE(colla.says("ready", 2));
  kill(colla.pid(), SIGINT);
  ASSERT_TRUE(colla.says("got INT", 2));
  EXPECT_FALSE(colla.gone());
  kill(colla.pid(), SIGINT);
  EXPECT_EQ(colla.wait(), 128 + SIGINT);
  EXPECT_TRUE(colla.gone());
}

TEST(RunSignals, UserSignalIsPassedOnAndTheJobGoesOn) {
  CollaProcess colla({"run", "-np", "2", "--grace", "0.1", "--", COLLA_PROBE, "signals"});
  ASSERT_TRUE(colla.says("ready", 2));
  kill(colla.pid(), SIGUSR1);
  ASSERT_TRUE(colla.says("got USR1", 2));
  kill(colla.pid(), SIGTERM);
  EXPECT_EQ(colla.wait(), 128 + SIGTERM);
  EXPECT_TRUE(colla.says("got TERM", 2));
  EXPECT_TRUE(colla.gone());
}

TEST(RunSignals, StopsAndContinuesWithItsProcesses) {
  CollaProcess colla({"run", "-np", "2", "--", COLLA_PROBE, "wait"});
  ASSERT_TRUE(colla.says("ready", 2));
  const auto stopped = [&] {
    const auto all = colla.processes();
    return std::ranges::count(all, 'T', &MarkedProcess::state);
  };
  kill(colla.pid(), SIGTSTP);
  EXPECT_TRUE(eventually([&] { return stopped() == 3; }));  // The guardian stays awake.
  kill(colla.pid(), SIGCONT);
  EXPECT_TRUE(eventually([&] { return stopped() == 0; }));
  kill(colla.pid(), SIGTERM);
  EXPECT_EQ(colla.wait(), 128 + SIGTERM);
  EXPECT_TRUE(colla.gone());
}

TEST(RunSignals, StoppedWorkersEndToo) {
  CollaProcess colla({"run", "-np", "2", "--grace", "600", "--", COLLA_PROBE, "wait"});
  ASSERT_TRUE(colla.says("ready", 2));
  kill(colla.worker(0), SIGSTOP);
  kill(colla.pid(), SIGTERM);
  EXPECT_EQ(colla.wait(), 128 + SIGTERM);
  EXPECT_TRUE(colla.gone());
}

TEST(RunSignals, IgnoredHangUpStaysIgnored) {
  CollaProcess colla({"run", "-np", "1", "--", COLLA_PROBE, "signals"},
                     {.wrapper = "trap '' HUP; exec \"$@\""});
  ASSERT_TRUE(colla.says("ready"));
  kill(colla.pid(), SIGHUP);
  kill(colla.pid(), SIGUSR1);  // Passed on after it, so that the first one has been dealt with.
  ASSERT_TRUE(colla.says("got USR1"));
  EXPECT_FALSE(colla.gone());
  kill(colla.pid(), SIGINT);
  ASSERT_TRUE(colla.says("got INT"));
  kill(colla.pid(), SIGINT);
  EXPECT_EQ(colla.wait(), 128 + SIGINT);
}

// A script's background jobs are started with SIGINT ignored; what is sent to one is meant for it.
TEST(RunSignals, IgnoredInterruptIsObeyed) {
  CollaProcess colla({"run", "-np", "2", "--", COLLA_PROBE, "wait"},
                     {.wrapper = "trap '' INT; exec \"$@\""});
  ASSERT_TRUE(colla.says("ready", 2));
  kill(colla.pid(), SIGINT);
  EXPECT_EQ(colla.wait(), 128 + SIGINT);
  EXPECT_TRUE(colla.gone());
}

TEST(RunSignals, TerminalGivesColourInputAndOneInterrupt) {
  const std::string script =
      "read x; echo \"got $x\"; trap 'echo interrupted; exit 0' INT; echo ready; "
      "while :; do sleep 0.01; done";
  CollaProcess colla({"run", "-np", "1", "--", "/bin/sh", "-c", script}, {.terminal = true});
  colla.type("hello\n");
  ASSERT_TRUE(colla.says("\033[36m[worker 0]\033[0m got hello"));
  ASSERT_TRUE(colla.says("ready"));
  colla.type("\x03");  // Control-C.
  EXPECT_EQ(colla.wait(), 128 + SIGINT);
  EXPECT_TRUE(colla.gone());
  const std::string out = colla.out();
  EXPECT_EQ(out.find("interrupted"), out.rfind("interrupted"));
  EXPECT_THAT(out, HasSubstr("interrupted"));
}

}  // namespace
}  // namespace colla::launch
