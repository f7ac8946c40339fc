// Programs that start their own workers, as real processes.
#include "launch/start_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include <csignal>
#include <filesystem>

#include "job/cpu.h"
#include "support/colla_process.h"

namespace colla::launch {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

CollaProcess::Options starter(CollaProcess::Options options = {}) {
  options.program = COLLA_SELF_STARTER;
  return options;
}

TEST(StartWorkers, GivesItsWorkersPlaceThreadsSettingsAndArguments) {
  CollaProcess program({"--np", "2", "--threads", "3", "--slices", "6", "meet"}, starter());
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.out(),
              AllOf(HasSubstr("worker 0 of 2, 3 threads (OMP 3), 6 slices, last argument meet\n"),
                    HasSubstr("[worker 1] worker 1 of 2, 3 threads (OMP 3), 6 slices, ")));
  EXPECT_THAT(program.out(), Not(HasSubstr("[worker 0]")));
  EXPECT_EQ(program.err(), "");
  EXPECT_TRUE(program.gone());
}

TEST(StartWorkers, AloneItHasAllCoresAndItsSettingsToo) {
  const auto line = [](int threads, int slices) {
    return "worker 0 of 1, " + std::to_string(threads) + " threads (OMP none), " +
           std::to_string(slices) + " slices, last argument meet\n";
  };
  const std::string noOmp = "unset OMP_NUM_THREADS; exec \"$@\"";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"meet"}, {"--np", "1", "meet"}}) {
    CollaProcess program(words, starter({.wrapper = noOmp}));
    EXPECT_EQ(program.wait(), 0) << program.err();
    EXPECT_EQ(program.out(), line(job::usableCpus(), 1));
  }
  CollaProcess program({"--threads", "5", "--slices", "4", "meet"}, starter({.wrapper = noOmp}));
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_EQ(program.out(), line(5, 4));
}

TEST(StartWorkers, TheyMayBeInSeveralJobs) {
  const auto expectSums = [](CollaProcess& program) {
    EXPECT_EQ(program.wait(), 0) << program.out() << program.err();
    for (const char* sum : {"sum 40\n", "sum 2\n", "sum 600\n"}) {
      EXPECT_TRUE(program.says(sum, 2)) << program.out();
    }
  };
  CollaProcess program({"--np", "2", "jobs"}, starter());
  expectSums(program);
  CollaProcess colla({"run", "-np", "2", "--", COLLA_SELF_STARTER, "jobs"});
  expectSums(colla);
}

TEST(StartWorkers, JoinsWhatALauncherStarted) {
  CollaProcess colla({"run", "-np", "2", "--", COLLA_SELF_STARTER, "--np", "2", "meet"});
  EXPECT_EQ(colla.wait(), 0) << colla.err();
  EXPECT_THAT(colla.out(),
              AllOf(HasSubstr("[worker 0] worker 0 of 2"), HasSubstr("[worker 1] worker 1 of 2")));
  CollaProcess other({"run", "-np", "2", "--", COLLA_SELF_STARTER, "--np", "4", "meet"});
  EXPECT_EQ(other.wait(), 2);
  EXPECT_THAT(other.err(), HasSubstr("--np is 4, but colla has started 2 workers"));
}

TEST(StartWorkers, RefusesWhatMakesNoSenseInOneLine) {
  CollaProcess negative({"--np", "-2", "meet"}, starter());
  EXPECT_EQ(negative.wait(), 2);
  EXPECT_EQ(negative.err(),
            "self_starter: --np is -2 and --ps is 0, but neither can be negative\n");
  CollaProcess slices({"--np", "4", "--slices", "3", "meet"}, starter());
  EXPECT_EQ(slices.wait(), 2);
  EXPECT_THAT(slices.err(), StartsWith("launch_self_starter: --slices is 3, but 4 workers need"));
  CollaProcess threads({"--np", "2", "thread"}, starter());
  EXPECT_EQ(threads.wait(), 2);
  // A sanitizer may have one of its own.
  EXPECT_THAT(threads.err(), ContainsRegex("this process has [23] threads already"));
}

TEST(StartWorkers, ReportsWhoFailedAndHow) {
  CollaProcess program({"--np", "3", "fail"}, starter());
  EXPECT_EQ(program.wait(), 3);
  EXPECT_THAT(program.err(),
              HasSubstr("[worker 1] something broke\nlaunch_self_starter: worker 1 "));
  EXPECT_THAT(program.err(), EndsWith(" ended with exit code 3; its last lines on standard error:\n"
                                      "  | something broke\n"));
  EXPECT_TRUE(program.gone());
}

TEST(StartWorkers, GoesOnWithoutAWorkerThatItCanSpare) {
  CollaProcess program({"--np", "3", "--spare-workers", "1", "fail"}, starter());
  ASSERT_TRUE(eventually([&] {
    return program.err().find("worker 1 on host ") != std::string::npos;
  })) << program.err();
  EXPECT_THAT(program.err(),
              HasSubstr(" ended with exit code 3; the job goes on without it (1 of 1 "
                        "spare); its last lines on standard error:\n"
                        "  | something broke\n"));
  EXPECT_NE(program.worker(0), 0);
  EXPECT_NE(program.worker(2), 0);
  kill(program.worker(2), SIGKILL);
  EXPECT_EQ(program.wait(), 128 + SIGKILL);
  EXPECT_TRUE(program.gone());
}

TEST(StartWorkers, NothingIsLeftWhenTheFrontIsKilled) {
  CollaProcess program({"--np", "2", "wait"}, starter());
  ASSERT_TRUE(program.says("ready", 2));
  kill(program.pid(), SIGKILL);
  EXPECT_EQ(program.wait(), -SIGKILL);
  EXPECT_TRUE(eventually([&] { return program.gone(); }));
}

TEST(StartWorkers, WorksWhenItsFileIsGone) {
  const std::string copy = ::testing::TempDir() + "starter-" + std::to_string(getpid());
  std::filesystem::copy_file(COLLA_SELF_STARTER, copy);
  CollaProcess::Options options;
  options.program = "/bin/sh";
  // It has no name any more when it starts.
  CollaProcess program(
      {"-c", "exec 9< " + copy + "; rm " + copy + "; exec /proc/self/fd/9 --np 2 meet"}, options);
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.out(), HasSubstr("worker 0 of 2"));
}

TEST(StartWorkers, WorkerZeroSpeaksForItAndItsLinesStayWhole) {
  CollaProcess program({"--np", "2", "halves"}, starter({.input = "", .keepInput = true}));
  const auto complains = [&](const std::string& text) {
    return eventually([&] { return program.err().find(text) != std::string::npos; });
  };
  ASSERT_TRUE(program.says("first "));
  ASSERT_TRUE(complains("[worker 1] waiting\n"));
  kill(program.worker(1), SIGUSR1);
  ASSERT_TRUE(complains("[worker 1] said so\n"));
  EXPECT_EQ(program.out(), "first ");
  program.type("\n");
  EXPECT_EQ(program.wait(), 0);
  EXPECT_EQ(program.out(), "first line\n[worker 1] of another\nno line feed");
}

TEST(StartWorkers, FirstInterruptLetsThemSaveAndTheExitCodeIsWorkerZeros) {
  CollaProcess program({"--np", "3", "save"}, starter({.input = "", .keepInput = true}));
  ASSERT_TRUE(program.says("ready", 3));
  kill(program.pid(), SIGINT);
  ASSERT_TRUE(program.says("saving"));
  ASSERT_TRUE(eventually([&] { return program.worker(1) == 0 && program.worker(2) == 0; }));
  program.type("\n");
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(program.out(), EndsWith("saving\nsaved\n"));
  EXPECT_EQ(program.err(), "");
  EXPECT_TRUE(program.gone());
}

TEST(StartWorkers, SecondInterruptEndsThemAtOnce) {
  CollaProcess program({"--np", "2", "save"}, starter({.input = "", .keepInput = true}));
  ASSERT_TRUE(program.says("ready", 2));
  kill(program.pid(), SIGINT);
  ASSERT_TRUE(program.says("saving"));
  kill(program.pid(), SIGINT);
  EXPECT_EQ(program.wait(), 128 + SIGINT);
  EXPECT_EQ(program.err(), "launch_self_starter: ended by SIGINT\n");
  EXPECT_TRUE(program.gone());
}

TEST(StartWorkers, TerminalIsOneForWorkerZeroToo) {
  CollaProcess program({"--np", "2", "bar"}, starter({.terminal = true, .columns = 60}));
  ASSERT_TRUE(program.says("terminal 1 width 60\r\nEpoch 1/1\r\n\r0/4 ["));
  program.type("\n");
  // The bar gives way to the warning.
  ASSERT_TRUE(program.says("\r\033[K\033[36m[worker 0]\033[0m a warning\r\n")) << program.out();
  program.resize(44);
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(program.out(), HasSubstr("\r4/4 - 0s - width: 44.0000\033[K\r\n"));
  EXPECT_TRUE(program.gone());
}

TEST(StartWorkers, InterruptFromTheTerminalComesOnce) {
  CollaProcess program({"--np", "2", "save"}, starter({.terminal = true}));
  ASSERT_TRUE(program.says("ready", 2));
  program.type("\x03");
  ASSERT_TRUE(program.says("saving"));
  program.type("\n");
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(program.out(), HasSubstr("saved"));
}

TEST(BecomesFront, OnlyWithoutALauncherAndForCompany) {
  const auto front = [](const job::Place& place, int workers, int servers) {
    StartOptions options;
    options.workers = workers;
    options.servers = servers;
    const auto result = becomesFront(place, options);
    return result.ok() ? (*result ? "yes" : "no") : std::string(result.status().message());
  };
  job::Place alone;
  EXPECT_EQ(front(alone, 0, 0), "no");
  EXPECT_EQ(front(alone, 1, 0), "no");
  EXPECT_EQ(front(alone, 2, 0), "yes");
  EXPECT_EQ(front(alone, 0, 1), "yes");
  alone.launcher = "srun";  // A step of one task, with several cores.
  EXPECT_EQ(front(alone, 2, 0), "yes");
  alone.launcher = "colla";
  EXPECT_EQ(front(alone, 1, 0), "no");
  EXPECT_THAT(front(alone, 2, 0), HasSubstr("--np is 2, but colla has started 1 worker:"));

  job::Place member;
  member.launcher = "mpirun";
  member.size = 4;
  EXPECT_EQ(front(member, 0, 0), "no");
  EXPECT_EQ(front(member, 4, 0), "no");
  EXPECT_THAT(front(member, 2, 0), HasSubstr("--np is 2, but mpirun has started 4 workers"));
  EXPECT_THAT(front(member, 4, 1), HasSubstr("--ps is 1, but mpirun has started 0 servers"));
}

}  // namespace
}  // namespace colla::launch
