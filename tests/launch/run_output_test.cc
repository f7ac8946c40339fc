// What becomes of the output and the input of a job's processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "support/colla_process.h"
#include "support/scratch.h"

namespace colla::launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RunOutput : public ::testing::Test {
 protected:
  const Scratch scratch_;
  const std::string& folder_ = scratch_.path();
};

TEST_F(RunOutput, KeepsStreamsApartAndPrefixesLines) {
  CollaProcess colla({"run", "-np", "2", "--", "/bin/sh", "-c",
                      "echo out $COLLA_RANK; echo err $COLLA_RANK >&2; printf unfinished"});
  EXPECT_EQ(colla.wait(), 0);
  EXPECT_THAT(colla.out(), AllOf(HasSubstr("[worker 0] out 0\n"), HasSubstr("[worker 1] out 1\n"),
                                 HasSubstr("[worker 1] unfinished\n"), Not(HasSubstr("err"))));
  EXPECT_THAT(colla.err(), AllOf(HasSubstr("[worker 0] err 0\n"), HasSubstr("[worker 1] err 1\n"),
                                 Not(HasSubstr("out"))));
  EXPECT_THAT(colla.out(), Not(HasSubstr("\033"))) << "no colour outside of a terminal";
}

TEST_F(RunOutput, ShowsUnfinishedLinesWhileTheProcessRuns) {
  ASSERT_EQ(mkfifo((folder_ + "/in").c_str(), 0600), 0);
  CollaProcess colla({"run", "-np", "1", "--", "/bin/sh", "-c", "printf 'password: '; exec cat"},
                     {.wrapper = "exec \"$@\" < " + folder_ + "/in"});
  std::ofstream input(folder_ + "/in");
  EXPECT_TRUE(colla.says("[worker 0] password: "));
  input << "x\n" << std::flush;
  input.close();
  EXPECT_EQ(colla.wait(), 0);
  EXPECT_EQ(colla.out(), "[worker 0] password: x\n");
}

TEST_F(RunOutput, WritesFilesAsWell) {
  const std::string logs = folder_ + "/deep/logs";
  CollaProcess colla({"run", "-np", "2", "--ps", "1", "--output_dir", logs, "--", "/bin/sh", "-c",
                      "printf \"out $COLLA_RANK\"; echo err >&2"});
  EXPECT_EQ(colla.wait(), 0) << colla.err();
  EXPECT_EQ(readText(logs + "/worker-0.out"), "out 0");
  EXPECT_EQ(readText(logs + "/worker-1.out"), "out 1");
  EXPECT_EQ(readText(logs + "/worker-1.err"), "err\n");
  EXPECT_EQ(readText(logs + "/ps-0.out"), "out 0");
  EXPECT_THAT(colla.out(), HasSubstr("[ps 0] out 0\n"));
}

TEST_F(RunOutput, RefusesAFolderThatCannotBe) {
  std::ofstream(folder_ + "/file") << "x";
  CollaProcess colla(
      {"run", "-np", "1", "--output-dir", folder_ + "/file/logs", "--", "/bin/true"});
  EXPECT_EQ(colla.wait(), 1);
  EXPECT_THAT(colla.err(), HasSubstr("colla run: cannot make the folder " + folder_));
}

TEST_F(RunOutput, PassesOnVeryLongLines) {
  CollaProcess colla({"run", "-np", "1", "--", COLLA_PROBE, "long-line"});
  EXPECT_EQ(colla.wait(), 0);
  EXPECT_EQ(colla.out().size(), std::string("[worker 0] \n").size() + 64 * 65536);
}

TEST_F(RunOutput, WorkerZeroReadsOurInputAndNobodyElse) {
  CollaProcess colla({"run", "-np", "2", "--", "/bin/sh", "-c", "cat; echo end"},
                     {.input = "hello\nyou\n"});
  EXPECT_EQ(colla.wait(), 0);
  EXPECT_THAT(colla.out(), AllOf(HasSubstr("[worker 0] hello\n"), HasSubstr("[worker 0] you\n"),
                                 Not(HasSubstr("[worker 1] hello"))));
}

// Control-D.
TEST_F(RunOutput, EndOfInputAtATerminalIsWorkerZerosToo) {
  CollaProcess colla({"run", "-np", "1", "--", "/bin/cat"}, {.terminal = true});
  colla.type("hello\n");
  ASSERT_TRUE(colla.says("[worker 0]\033[0m hello")) << colla.out();
  colla.type("\x04");
  EXPECT_EQ(colla.wait(), 0);
  EXPECT_TRUE(colla.gone());
}

TEST_F(RunOutput, EndsQuietlyWhenItsReaderGoesAway) {
  CollaProcess colla({"run", "-np", "2", "--", COLLA_PROBE, "flood"}, {.readOutput = false});
  ASSERT_TRUE(eventually([&] { return colla.worker(1) != 0; }));
  colla.closeOutput();
  EXPECT_EQ(colla.wait(), 128 + SIGPIPE);
  EXPECT_EQ(colla.err(), "");
  EXPECT_TRUE(colla.gone());
}

// Worker 0 fails, and while worker 1 takes its time to end, nobody is left to read the report.
TEST_F(RunOutput, EndsWhenTheReaderOfItsReportIsGone) {
  CollaProcess colla({"run", "-np", "2", "--", "/bin/sh", "-c",
                      "test $COLLA_RANK = 1 || exit 3; trap '' TERM; sleep 1; exit 0"},
                     {.wrapper = "{ \"$@\"; echo $? >&3; } 3>&2 2>&1 | sleep 0.3"});
  EXPECT_EQ(colla.wait(), 0);  // The sleep's.
  EXPECT_EQ(colla.err(), "3\n");
}

TEST_F(RunOutput, EndsWhenItsDiskIsFull) {
  CollaProcess colla({"run", "-np", "2", "--", COLLA_PROBE, "flood"},
                     {.wrapper = "exec \"$@\" > /dev/full"});
  EXPECT_EQ(colla.wait(), 1);
  EXPECT_EQ(colla.err(), "colla run: cannot pass on the output: No space left on device\n");
  EXPECT_TRUE(colla.gone());
}

TEST_F(RunOutput, SignalsWorkWhileNobodyReads) {
  // More than the pipe between us holds, so that some of it must stay with colla.
  CollaProcess colla({"run", "-np", "1", "--", "/bin/sh", "-c",
                      "yes | head -c 100000; echo written >&2; exec sleep 60"},
                     {.readOutput = false});
  ASSERT_TRUE(eventually([&] { return colla.err() == "[worker 0] written\n"; }));
  kill(colla.pid(), SIGTERM);
  // Its processes end although their output is stuck; to give up that takes a second signal.
  EXPECT_TRUE(eventually([&] { return colla.processes().size() == 1; }));
  kill(colla.pid(), SIGINT);
  EXPECT_EQ(colla.wait(), 128 + SIGTERM);
}

TEST_F(RunOutput, TimeoutCountsForOutputThatNobodyReads) {
  CollaProcess colla({"run", "-np", "1", "--timeout", "0.5", "--grace", "0.2", "--", "/bin/sh",
                      "-c", "yes | head -c 100000"},
                     {.readOutput = false});
  EXPECT_EQ(colla.wait(), 124);
  EXPECT_EQ(colla.err(), "colla run: nobody took the job's output within 0.5 s (--timeout)\n");
  EXPECT_TRUE(colla.gone());
}

TEST_F(RunOutput, TimeoutCountsForProcessesThatNobodyReads) {
  CollaProcess colla(
      {"run", "-np", "1", "--timeout", "0.5", "--grace", "0.2", "--", COLLA_PROBE, "flood"},
      {.readOutput = false});
  EXPECT_EQ(colla.wait(), 124);
  EXPECT_THAT(colla.err(), HasSubstr("did not end within 0.5 s (--timeout)"));
  EXPECT_TRUE(colla.gone());
}

TEST_F(RunOutput, PrefixCanBeLeftOut) {
  CollaProcess colla({"run", "-np", "1", "--no-prefix", "--", "/bin/echo", "hello"});
  EXPECT_EQ(colla.wait(), 0);
  EXPECT_EQ(colla.out(), "hello\n");
}

}  // namespace
}  // namespace colla::launch
