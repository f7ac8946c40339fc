// How jobs end, and that nothing is left of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "support/colla_process.h"
#include "support/scratch.h"

namespace colla::launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

TEST(RunEnd, GivesEachProcessItsPlace) {
  const std::string script =
      "echo $COLLA_ROLE $COLLA_RANK/$COLLA_SIZE $COLLA_SERVERS $COLLA_THREADS "
      "$OMP_NUM_THREADS $COLOUR secret $COLLA_SECRET";
  CollaProcess colla({"run", "-np", "2", "--ps", "1", "--threads", "3", "--env", "COLOUR=blue",
                      "--", "/bin/sh", "-c", script});
  EXPECT_EQ(colla.wait(), 0) << colla.err();
  EXPECT_THAT(colla.out(), AllOf(HasSubstr("[worker 0] worker 0/2 1 3 3 blue secret\n"),
                                 HasSubstr("[worker 1] worker 1/2 1 3 3 blue secret\n"),
                                 HasSubstr("[ps 0] ps 0/2 1 3 3 blue secret\n")));
  EXPECT_EQ(colla.err(), "");
  EXPECT_TRUE(colla.gone());
}

TEST(RunEnd, ReportsTheFirstFailureAndItsLastLines) {
  // Worker 0 fails too, but only as a consequence.
  const std::string script =
      "trap 'echo ended >&2; exit 9' TERM; echo up; "
      "if [ $COLLA_RANK = 1 ]; then for i in $(seq 30); do "
      "echo line $i >&2; done; exit 7; fi; while :; do sleep 0.01; done";
  CollaProcess colla({"run", "-np", "3", "--", "/bin/sh", "-c", script});
  EXPECT_EQ(colla.wait(), 7);
  EXPECT_THAT(colla.err(), HasSubstr("colla run: worker 1 on host "));
  EXPECT_THAT(colla.err(), HasSubstr("ended with exit code 7; its last lines on standard error:\n"
                                     "  | line 21\n"));
  EXPECT_THAT(colla.err(), AllOf(HasSubstr("  | line 30\n"), Not(HasSubstr("| line 20\n"))));
  EXPECT_TRUE(colla.gone());
}

TEST(RunEnd, TellsAFailureFromItsConsequencesByOrder) {
  // Worker 2 dies; both others fail as soon as they see that, before anybody asks them to.
  const std::string folder = ::testing::TempDir() + "launch-order-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  ASSERT_EQ(mkfifo((folder + "/0").c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((folder + "/1").c_str(), 0600), 0);
  for (int i = 0; i < 5; ++i) {
    CollaProcess colla({"run", "-np", "3", "--", "/bin/sh", "-c",
                        "cd " + folder +
                            "; if [ $COLLA_RANK = 2 ]; then exec 3> 0 4> 1; kill -SEGV $$; fi; "
                            "read x < $COLLA_RANK; exit 5"});
    EXPECT_EQ(colla.wait(), 128 + SIGSEGV) << colla.err();
    EXPECT_THAT(colla.err(), AllOf(HasSubstr("worker 2 on host"),
                                   HasSubstr("was killed by SIGSEGV (signal 11)")));
    EXPECT_TRUE(colla.gone());
  }
  std::filesystem::remove_all(folder);
}

TEST(RunEnd, TimeoutEndsAllAndSaysSo) {
  CollaProcess colla({"run", "-np", "2", "--timeout", "0.5", "--", COLLA_PROBE, "wait"});
  EXPECT_EQ(colla.wait(), 124);
  EXPECT_THAT(colla.err(), HasSubstr("did not end within 0.5 s (--timeout)"));
  EXPECT_THAT(colla.err(), HasSubstr("still running: worker 0, worker 1\n"));
  EXPECT_TRUE(colla.gone());
}

TEST(RunEnd, KillsWhatDoesNotEndWithinTheGracePeriod) {
  const std::string script =
      "if [ $COLLA_RANK = 1 ]; then exit 3; fi; exec " COLLA_PROBE " signals";
  CollaProcess colla({"run", "-np", "2", "--grace", "0.2", "--", "/bin/sh", "-c", script});
  EXPECT_EQ(colla.wait(), 3);
  EXPECT_TRUE(colla.gone());
}

TEST(RunEnd, ServersEndAfterTheWorkers) {
  const std::string script = "[ $COLLA_ROLE = worker ] || exec " COLLA_PROBE " wait";
  CollaProcess colla(
      {"run", "-np", "2", "--ps", "1", "--grace", "0.2", "--", "/bin/sh", "-c", script});
  EXPECT_EQ(colla.wait(), 0) << colla.err();
  EXPECT_EQ(colla.err(), "");
  EXPECT_TRUE(colla.gone());
}

TEST(RunEnd, ServersThatStayAreKilledAndTheJobWasFine) {
  const std::string script = "[ $COLLA_ROLE = worker ] || exec " COLLA_PROBE " signals";
  CollaProcess colla(
      {"run", "-np", "2", "--ps", "1", "--grace", "0.2", "--", "/bin/sh", "-c", script});
  EXPECT_EQ(colla.wait(), 0) << colla.err();
  EXPECT_TRUE(colla.says("got TERM"));
  EXPECT_EQ(colla.err(), "");
  EXPECT_TRUE(colla.gone());
}

TEST(RunEnd, TakesDaemonsOfTheProgramAlong) {
  CollaProcess colla({"run", "-np", "2", "--", COLLA_PROBE, "daemon"});
  EXPECT_EQ(colla.wait(), 0) << colla.err();
  EXPECT_TRUE(colla.says("ready", 2));
  EXPECT_TRUE(colla.gone());
}

// Two workers and two daemons of theirs run, with the front and the guardian.
class RunKilled : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(colla_.says("ready", 2)) << colla_.err();
    ASSERT_TRUE(eventually([this] { return colla_.processes().size() == 6; }));
    ASSERT_NE(colla_.guardian(), 0);
    ASSERT_NE(colla_.worker(1), 0);
  }
  CollaProcess colla_{{"run", "-np", "2", "--grace", "0.5", "--", COLLA_PROBE, "daemon-wait"}};
};

TEST_F(RunKilled, FrontLeavesNothing) {
  kill(colla_.pid(), SIGKILL);
  EXPECT_EQ(colla_.wait(), -SIGKILL);
  EXPECT_TRUE(eventually([this] { return colla_.gone(); }));
}

TEST_F(RunKilled, GuardianLeavesNothing) {
  kill(colla_.guardian(), SIGKILL);
  EXPECT_EQ(colla_.wait(), 1);
  EXPECT_THAT(colla_.err(), HasSubstr("guardian process was killed"));
  EXPECT_TRUE(colla_.gone());
}

// Neither a name nor a command line is common to the two: who kills all that have it leaves one.
TEST_F(RunKilled, ByCommandLineLeavesNothing) {
  const auto commandLine = [](pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
    std::string text(std::istreambuf_iterator<char>(file), {});
    std::ranges::replace(text, '\0', ' ');
    return text;
  };
  EXPECT_THAT(commandLine(colla_.pid()), HasSubstr("colla run "));
  EXPECT_THAT(commandLine(colla_.guardian()), StartsWith("job-guardian "));
  for (const MarkedProcess& process : colla_.processes()) {
    if (commandLine(process.pid).find("colla run ") != std::string::npos) {
      kill(process.pid, SIGKILL);
    }
  }
  EXPECT_EQ(colla_.wait(), -SIGKILL);
  EXPECT_TRUE(eventually([this] { return colla_.gone(); }));
}

TEST_F(RunKilled, StoppedFrontLeavesNothing) {
  kill(colla_.pid(), SIGSTOP);
  kill(colla_.pid(), SIGKILL);
  EXPECT_EQ(colla_.wait(), -SIGKILL);
  EXPECT_TRUE(eventually([this] { return colla_.gone(); }));
}

TEST_F(RunKilled, WorkerIsReportedAndLeavesNothing) {
  kill(colla_.worker(1), SIGKILL);
  EXPECT_EQ(colla_.wait(), 128 + SIGKILL);
  EXPECT_THAT(colla_.err(), AllOf(HasSubstr("worker 1 on host"), HasSubstr("SIGKILL")));
  EXPECT_TRUE(colla_.gone());
}

// Memory that a process has: of memfds, which no name leads to, so that it is gone when nobody has
// it.
using Memory = std::set<ino_t>;

bool isMemory(const std::filesystem::path& link, ino_t& inode) {
  std::error_code gone;
  const std::string target = std::filesystem::read_symlink(link, gone).string();
  struct stat file {};
  if (gone || !target.starts_with("/memfd:colla") || stat(link.c_str(), &file) != 0) return false;
  inode = file.st_ino;
  return true;
}

// By descriptors and by mappings, which stay when the descriptor is closed.
Memory memoryOf(pid_t pid) {
  Memory memory;
  for (const char* kind : {"fd", "map_files"}) {
    std::error_code gone;
    const auto folder = "/proc/" + std::to_string(pid) + "/" + kind;
    for (const auto& link : std::filesystem::directory_iterator(folder, gone)) {
      if (ino_t inode = 0; isMemory(link.path(), inode)) memory.insert(inode);
    }
  }
  return memory;
}

bool somebodyHas(const Memory& memory) {
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(process.path().filename().c_str());
    const Memory had = pid > 0 ? memoryOf(pid) : Memory();
    if (std::ranges::any_of(had, [&](ino_t inode) { return memory.contains(inode); })) return true;
  }
  return false;
}

// Files of Colla's in shared memory, those of other jobs on this machine included.
std::set<std::string> sharedFiles() {
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = file.path().filename();
    if (name.starts_with("colla")) names.insert(name);
  }
  return names;
}

std::set<std::string> namesIn(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    names.insert(entry.path().lexically_relative(folder).string());
  }
  return names;
}

// Who kills everything at once leaves nobody to clear up.
TEST(RunEnd, NothingIsLeftWhenEveryProcessIsKilled) {
  const Scratch folder;
  const std::set<std::string> before = sharedFiles();
  CollaProcess run({"run", "-np", "2", "--transport", "shm", "--output-dir", "out", "--",
                    COLLA_JOB_MEMBER, "shared", "1000000000", "1000000", "60000"},
                   {.wrapper = "cd " + folder.path() + " && TMPDIR=. exec \"$@\""});
  ASSERT_TRUE(run.says("going", 2)) << run.err();
  Memory memory;
  std::string store;
  for (const MarkedProcess& process : run.processes()) {
    memory.merge(memoryOf(process.pid));
    const auto at = process.environment.find("COLLA_STORE=unix:");
    if (at != std::string::npos) store = process.environment.c_str() + at + 17;
  }
  ASSERT_GE(memory.size(), 2U);  // Each rank's own.
  ASSERT_TRUE(somebodyHas(memory));

  const auto all = run.processes();
  ASSERT_EQ(all.size(), 4U);
  for (const int signal : {SIGSTOP, SIGKILL}) {
    for (const MarkedProcess& process : all) kill(process.pid, signal);
  }
  EXPECT_EQ(run.wait(), -SIGKILL);
  EXPECT_TRUE(eventually([&] { return run.gone() && !somebodyHas(memory); }));
  EXPECT_THAT(sharedFiles(), IsSubsetOf(before));
  EXPECT_THAT(namesIn(folder.path()),
              UnorderedElementsAre("out", "out/worker-0.err", "out/worker-0.out",
                                   "out/worker-1.err", "out/worker-1.out"));
  std::ifstream sockets("/proc/net/unix");
  const std::string open(std::istreambuf_iterator<char>(sockets), {});
  ASSERT_FALSE(store.empty());
  EXPECT_THAT(open, Not(HasSubstr(store)));
}

// A guardian that somebody stopped goes on when the job is to end, so that workers are asked first.
TEST(RunEnd, StoppedGuardianEndsTheJobAllTheSame) {
  CollaProcess colla({"run", "-np", "2", "--grace", "600", "--", COLLA_PROBE, "wait"});
  ASSERT_TRUE(colla.says("ready", 2));
  kill(colla.guardian(), SIGSTOP);
  kill(colla.pid(), SIGTERM);
  EXPECT_EQ(colla.wait(), 128 + SIGTERM);
  EXPECT_TRUE(colla.gone());
}

// One that does not go on either (a debugger holds it) is ended with the rest, by the front.
TEST(RunEnd, HeldGuardianDoesNotHoldTheJob) {
  CollaProcess colla({"run", "-np", "2", "--grace", "0.2", "--", COLLA_PROBE, "daemon-wait"});
  ASSERT_TRUE(colla.says("ready", 2));
  const pid_t guardian = colla.guardian();
  if (ptrace(PTRACE_SEIZE, guardian, nullptr, nullptr) != 0) GTEST_SKIP() << "no ptrace here";
  ASSERT_EQ(ptrace(PTRACE_INTERRUPT, guardian, nullptr, nullptr), 0);
  int status = 0;
  ASSERT_EQ(waitpid(guardian, &status, __WALL), guardian);
  ASSERT_TRUE(WIFSTOPPED(status));
  kill(colla.pid(), SIGTERM);
  // Its end comes to the debugger first.
  EXPECT_TRUE(eventually([&] {
    return waitpid(guardian, &status, WNOHANG | __WALL) == guardian && WIFSIGNALED(status);
  }));
  EXPECT_EQ(colla.wait(), 128 + SIGTERM);
  EXPECT_TRUE(colla.gone());
}

TEST(RunEnd, SparesWhatWasThereBefore) {
  // A child of the shell that becomes `colla run` is not part of the job.
  CollaProcess colla({"run", "-np", "1", "--", COLLA_PROBE, "daemon-wait"},
                     {.wrapper = COLLA_PROBE " wait > /dev/null 2>&1 & exec \"$@\""});
  ASSERT_TRUE(colla.says("ready"));
  ASSERT_TRUE(eventually([&] { return colla.processes().size() == 5; }));
  kill(colla.guardian(), SIGKILL);
  EXPECT_EQ(colla.wait(), 1);
  const auto left = colla.processes();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_FALSE(left[0].has("COLLA_ROLE=worker"));
  kill(left[0].pid, SIGKILL);
}

}  // namespace
}  // namespace colla::launch
