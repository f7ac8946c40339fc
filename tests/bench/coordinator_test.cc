#include "bench/coordinator.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>

#include "support/eventually.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Deadline soon() { return Deadline::after(20s); }

std::string messageOf(const Status& status) { return std::string(status.message()); }

// Until init has waited for it, an orphan is a zombie, which has no program any more.
bool isGone(pid_t pid) {
  char path[64];
  return kill(pid, 0) != 0 ||
         readlink(("/proc/" + std::to_string(pid) + "/exe").c_str(), path, sizeof(path)) < 0;
}

// What an agent does once it has said hello.
using Behaviour = int (*)(LineSocket& socket);

int obedient(LineSocket& socket) {
  while (true) {
    const auto line = socket.readLine();
    if (!line.ok()) return 0;
    if (!socket.writeLine("ok " + *line).ok()) return 1;
  }
}

int silent(LineSocket& socket) {
  while (socket.readLine().ok()) {
  }
  return 0;
}

// Does not notice that nobody listens any more, as an agent that is stuck in a collective.
int stubborn(LineSocket& socket) {
  signal(SIGTERM, SIG_IGN);
  if (!socket.readLine().ok()) return 1;
  if (!socket.writeLine("ok " + std::to_string(getpid())).ok()) return 1;
  while (true) pause();
}

class CoordinatorTest : public ::testing::Test {
 protected:
  CoordinatorTest() : coordinator_(*Coordinator::create()) {}

  // Starts a system whose rank 0 is obedient.
  Status start(const std::string& name, Behaviour rank1) {
    SystemSpec spec{name, 2, {}};
    for (const Behaviour behaviour : {Behaviour(obedient), rank1}) {
      const std::string rank = std::to_string(spec.processes.size());
      spec.processes.push_back(
          {.name = name + " rank " + rank,
           .body = [=, path = coordinator_->socketPath(), hello = "hello " + name + " " + rank] {
             auto socket = LineSocket::connect(path);
             if (!socket.ok() || !socket->writeLine(hello).ok()) return 1;
             return behaviour(*socket);
           }});
    }
    return coordinator_->start(spec, soon());
  }

  std::unique_ptr<Coordinator> coordinator_;
};

TEST_F(CoordinatorTest, CollectsTheAnswersOfAllRanks) {
  ASSERT_TRUE(start("good", obedient).ok());
  const auto answers = coordinator_->ask("good", "measure 7", soon());
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_THAT(*answers, ElementsAre("measure 7", "measure 7"));
}

TEST_F(CoordinatorTest, NamesTheRankThatReportsAnError) {
  ASSERT_TRUE(start("good", obedient).ok());
  ASSERT_TRUE(start("bad", [](LineSocket& socket) {
                if (!socket.readLine().ok()) return 1;
                return socket.writeLine("error wrong result: element 3").ok() ? 1 : 2;
              }).ok());
  EXPECT_TRUE(coordinator_->ask("good", "verify", soon()).ok());
  EXPECT_EQ(messageOf(coordinator_->ask("bad", "verify", soon()).status()),
            "bad rank 1: wrong result: element 3");
}

TEST_F(CoordinatorTest, NamesTheRankThatDiedWithItsLastLines) {
  ASSERT_TRUE(start("fragile", [](LineSocket& socket) {
                if (!socket.readLine().ok()) return 1;
                std::fputs("first\nout of luck\n", stderr);
                std::abort();
              }).ok());
  const auto answers = coordinator_->ask("fragile", "measure 1", soon());
  EXPECT_EQ(answers.status().code(), StatusCode::kPeerLost);
  EXPECT_THAT(messageOf(answers.status()), AllOf(HasSubstr("fragile rank 1 ended with signal 6 "),
                                                 HasSubstr("its last lines:\nfirst\nout of luck")));
}

TEST_F(CoordinatorTest, NamesTheRankThatIsSilent) {
  ASSERT_TRUE(start("slow", silent).ok());
  const auto answers = coordinator_->ask("slow", "verify", Deadline::after(50ms));
  EXPECT_EQ(answers.status().code(), StatusCode::kTimeout);
  EXPECT_THAT(messageOf(answers.status()), HasSubstr("slow rank 1 did not answer"));
}

TEST_F(CoordinatorTest, ASystemThatDoesNotStartLeavesTheOthersAlone) {
  ASSERT_TRUE(start("good", obedient).ok());
  const SystemSpec missing{"missing", 1, {{.name = "one", .program = {"/nonexistent/program"}}}};
  EXPECT_EQ(messageOf(coordinator_->start(missing, soon())),
            "one: there is no program /nonexistent/program");
  const SystemSpec broken{"broken", 1, {{.name = "two", .program = {"sh", "-c", "exit 3"}}}};
  EXPECT_EQ(messageOf(coordinator_->start(broken, soon())), "two ended with exit code 3");
  EXPECT_TRUE(coordinator_->ask("good", "verify", soon()).ok());
}

TEST_F(CoordinatorTest, RunsProgramsToTheirEnd) {
  std::string heard;
  ProcessSpec echo{.name = "echo",
                   .program = {"sh", "-c", "echo $GREETING"},
                   .environment = {{"GREETING", "hello there"}},
                   .heard = [&](const std::string& line) { heard = line; }};
  EXPECT_TRUE(coordinator_->run(echo, soon()).ok());
  EXPECT_EQ(heard, "hello there");
  echo.program = {"sh", "-c", "echo no luck; exit 3"};
  EXPECT_EQ(messageOf(coordinator_->run(echo, soon())),
            "echo ended with exit code 3; its last lines:\nno luck");
}

TEST_F(CoordinatorTest, SignalsCancelAWait) {
  ASSERT_TRUE(start("slow", silent).ok());
  kill(getpid(), SIGINT);  // Blocked, and read when it waits.
  EXPECT_EQ(coordinator_->ask("slow", "verify", soon()).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(coordinator_->signal(), SIGINT);
}

// Agents, also those that ignore SIGTERM, and files go with the coordinator, even if that is killed
// with -9.
class LitterTest : public CoordinatorTest, public ::testing::WithParamInterface<bool> {};

TEST_P(LitterTest, LeavesNoProcessAndNoFile) {
  int pipe[2];
  ASSERT_EQ(pipe2(pipe, O_CLOEXEC), 0);
  coordinator_.reset();
  const pid_t child = fork();
  if (child == 0) {
    coordinator_ = *Coordinator::create();
    if (!start("stuck", stubborn).ok()) _exit(1);
    const auto answers = coordinator_->ask("stuck", "pid", soon());
    if (!answers.ok()) _exit(1);
    const std::string text = coordinator_->scratch().directory() + " " +
                             coordinator_->scratch().memoryDirectory() + " " + (*answers)[1] + "\n";
    if (write(pipe[1], text.data(), text.size()) < 0) _exit(1);
    while (GetParam()) pause();
    coordinator_.reset();
    _exit(0);
  }
  close(pipe[1]);
  LineSocket told{UniqueFd(pipe[0])};
  const auto line = told.readLine();
  ASSERT_TRUE(line.ok());
  std::istringstream words(*line);
  std::string directory;
  std::string inMemory;
  pid_t agent = 0;
  words >> directory >> inMemory >> agent;
  if (GetParam()) {
    ASSERT_EQ(kill(agent, 0), 0);
    ASSERT_TRUE(std::filesystem::exists(directory));
    kill(child, SIGKILL);
  }
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return isGone(agent); }));
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(directory); }));
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(inMemory); }));
}

INSTANTIATE_TEST_SUITE_P(Ends, LitterTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Killed" : "Done"; });

}  // namespace
}  // namespace colla::bench
