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

#include "bench/bare.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Deadline soon() { return Deadline::after(20s); }

std::string messageOf(const Status& status) { return std::string(status.message()); }

// Waits for `condition`; whether it came true.
template <typename Condition>
bool eventually(Condition condition) {
  const Deadline deadline = soon();
  while (!condition()) {
    if (deadline.expired()) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

class CoordinatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = Coordinator::create();
    ASSERT_TRUE(made.ok()) << made.status();
    coordinator_ = *std::move(made);
  }

  // Two ranks that say hello and then do as they are told here.
  SystemSpec system(const std::string& name, const std::function<int(LineSocket&)>& rank0,
                    const std::function<int(LineSocket&)>& rank1) {
    SystemSpec spec{name, 2, {}};
    for (int rank = 0; rank < 2; ++rank) {
      ProcessSpec process;
      process.name = name + " rank " + std::to_string(rank);
      const auto behaviour = rank == 0 ? rank0 : rank1;
      const std::string path = coordinator_->socketPath();
      process.body = [=] {
        auto socket = LineSocket::connect(path);
        if (!socket.ok()) return 1;
        if (!socket->writeLine("hello " + name + " " + std::to_string(rank)).ok()) return 1;
        return behaviour(*socket);
      };
      spec.processes.push_back(process);
    }
    return spec;
  }

  static int obedient(LineSocket& socket) {
    while (true) {
      const auto line = socket.readLine();
      if (!line.ok()) return 0;
      if (!socket.writeLine("ok " + *line).ok()) return 1;
    }
  }

  std::unique_ptr<Coordinator> coordinator_;
};

TEST_F(CoordinatorTest, CollectsTheAnswersOfAllRanks) {
  ASSERT_TRUE(coordinator_->start(system("good", obedient, obedient), soon()).ok());
  const auto answers = coordinator_->ask("good", "measure 7", soon());
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_THAT(*answers, ElementsAre("measure 7", "measure 7"));
}

TEST_F(CoordinatorTest, TellsWhichRankReportedWhat) {
  const auto wrong = [](LineSocket& socket) {
    if (!socket.readLine().ok()) return 1;
    return socket.writeLine("error wrong result: element 3").ok() ? 1 : 2;
  };
  ASSERT_TRUE(coordinator_->start(system("good", obedient, obedient), soon()).ok());
  ASSERT_TRUE(coordinator_->start(system("bad", obedient, wrong), soon()).ok());
  EXPECT_TRUE(coordinator_->ask("good", "verify", soon()).ok());
  const auto answers = coordinator_->ask("bad", "verify", soon());
  EXPECT_EQ(messageOf(answers.status()), "bad rank 1: wrong result: element 3");
}

TEST_F(CoordinatorTest, TellsWhichRankDiedAndItsLastLines) {
  const auto dies = [](LineSocket& socket) {
    if (!socket.readLine().ok()) return 1;
    std::fputs("first\nout of luck\n", stderr);
    std::abort();
  };
  ASSERT_TRUE(coordinator_->start(system("fragile", obedient, dies), soon()).ok());
  const auto answers = coordinator_->ask("fragile", "measure 1", soon());
  EXPECT_EQ(answers.status().code(), StatusCode::kPeerLost);
  EXPECT_THAT(messageOf(answers.status()), AllOf(HasSubstr("fragile rank 1 ended with signal 6 "),
                                                 HasSubstr("its last lines:\nfirst\nout of luck")));
}

TEST_F(CoordinatorTest, TellsWhichRankIsSilent) {
  const auto silent = [](LineSocket& socket) {
    while (socket.readLine().ok()) {
    }
    return 0;
  };
  ASSERT_TRUE(coordinator_->start(system("slow", obedient, silent), soon()).ok());
  const auto answers = coordinator_->ask("slow", "verify", Deadline::after(50ms));
  EXPECT_EQ(answers.status().code(), StatusCode::kTimeout);
  EXPECT_THAT(messageOf(answers.status()), HasSubstr("slow rank 1 did not answer"));
}

TEST_F(CoordinatorTest, ASystemThatDoesNotStartLeavesTheOthersAlone) {
  SystemSpec missing{"missing", 1, {}};
  missing.processes.resize(1);
  missing.processes[0].name = "missing rank 0";
  missing.processes[0].program = {"/nonexistent/program"};
  ASSERT_TRUE(coordinator_->start(system("good", obedient, obedient), soon()).ok());
  EXPECT_THAT(messageOf(coordinator_->start(missing, soon())),
              AllOf(HasSubstr("missing rank 0 ended with exit code 127"),
                    HasSubstr("/nonexistent/program: No such file")));
  EXPECT_TRUE(coordinator_->ask("good", "verify", soon()).ok());
}

TEST_F(CoordinatorTest, RunsProgramsToTheirEnd) {
  ProcessSpec echo;
  echo.name = "echo";
  echo.program = {"sh", "-c", "echo $GREETING"};
  echo.environment["GREETING"] = std::string("hello there");
  EXPECT_EQ(*coordinator_->run(echo, soon()), "hello there\n");
  echo.program = {"sh", "-c", "echo no luck; exit 3"};
  EXPECT_EQ(messageOf(coordinator_->run(echo, soon()).status()),
            "echo ended with exit code 3; its last lines:\nno luck");
}

TEST_F(CoordinatorTest, SignalsCancelAWait) {
  const auto silent = [](LineSocket& socket) {
    while (socket.readLine().ok()) {
    }
    return 0;
  };
  ASSERT_TRUE(coordinator_->start(system("slow", silent, silent), soon()).ok());
  kill(getpid(), SIGINT);  // Blocked, and read when it waits.
  EXPECT_EQ(coordinator_->ask("slow", "verify", soon()).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(coordinator_->signal(), SIGINT);
}

TEST_F(CoordinatorTest, LeavesNoProcessAndNoFile) {
  const std::string directory = coordinator_->scratch().directory();
  const std::string inMemory = coordinator_->scratch().memoryDirectory();
  const auto stubborn = [=](LineSocket& socket) {
    signal(SIGTERM, SIG_IGN);
    if (!socket.readLine().ok()) return 1;
    if (!socket.writeLine("ok " + std::to_string(getpid())).ok()) return 1;
    while (true) pause();
  };
  ASSERT_TRUE(coordinator_->start(system("stubborn", stubborn, stubborn), soon()).ok());
  const auto answers = coordinator_->ask("stubborn", "pid", soon());
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_TRUE(std::filesystem::exists(directory));
  coordinator_.reset();
  EXPECT_FALSE(std::filesystem::exists(directory));
  EXPECT_FALSE(std::filesystem::exists(inMemory));
  for (const std::string& pid : *answers) EXPECT_EQ(kill(std::stoi(pid), 0), -1) << pid;
}

// The kernel ends the agents and the guard removes the files when nobody else can.
TEST_F(CoordinatorTest, LeavesNothingEvenWhenItIsKilled) {
  int pipe[2];
  ASSERT_EQ(pipe2(pipe, O_CLOEXEC), 0);
  coordinator_.reset();
  const pid_t child = fork();
  if (child == 0) {
    coordinator_ = *Coordinator::create();
    const auto sayPid = [](LineSocket& socket) {
      if (!socket.readLine().ok()) return 1;
      if (!socket.writeLine("ok " + std::to_string(getpid())).ok()) return 1;
      while (true) pause();  // As one would that is stuck in a collective.
    };
    if (!coordinator_->start(system("stuck", sayPid, sayPid), soon()).ok()) _exit(1);
    const auto answers = coordinator_->ask("stuck", "pid", soon());
    if (!answers.ok()) _exit(1);
    const std::string text = coordinator_->scratch().directory() + " " +
                             coordinator_->scratch().memoryDirectory() + " " + (*answers)[0] + " " +
                             (*answers)[1] + "\n";
    if (write(pipe[1], text.data(), text.size()) < 0) _exit(1);
    while (true) pause();
  }
  close(pipe[1]);
  LineSocket told{UniqueFd(pipe[0])};
  const auto line = told.readLine();
  ASSERT_TRUE(line.ok());
  std::istringstream words(*line);
  std::string directory;
  std::string inMemory;
  pid_t first = 0;
  pid_t second = 0;
  words >> directory >> inMemory >> first >> second;
  ASSERT_EQ(kill(first, 0), 0);
  ASSERT_TRUE(std::filesystem::exists(directory));

  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  // Until init has waited for them they are zombies, which nothing can be asked of.
  const auto ended = [](pid_t pid) {
    if (kill(pid, 0) != 0) return true;
    char path[64];
    return readlink(("/proc/" + std::to_string(pid) + "/exe").c_str(), path, sizeof(path)) < 0;
  };
  EXPECT_TRUE(eventually([&] { return ended(first) && ended(second); }));
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(directory); }));
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(inMemory); }));
}

// The bare loop really adds: it is what everything else is measured against.
TEST_F(CoordinatorTest, BareLoopIsRightForAnyNumberOfRanks) {
  for (const int np : {2, 3, 5}) {
    const std::string name = "bare" + std::to_string(np);
    auto memory = BareMemory::create(np, 10'000 * sizeof(float));
    ASSERT_TRUE(memory.ok());
    SystemSpec spec{name, np, {}};
    for (int rank = 0; rank < np; ++rank) {
      const AgentPlace place{coordinator_->socketPath(), name, rank, np};
      ProcessSpec process;
      process.name = name;
      process.body = [place, memory = memory->get()] {
        return serveAgent(place, *makeBareWorkload(*memory, place.rank)).ok() ? 0 : 1;
      };
      spec.processes.push_back(process);
    }
    ASSERT_TRUE(coordinator_->start(spec, soon()).ok());
    for (const int elements : {1, 17, 1000, 10'000}) {
      const auto prepare = "prepare allreduce " + std::to_string(elements);
      ASSERT_TRUE(coordinator_->ask(name, prepare, soon()).ok());
      for (const char* line : {"verify", "measure 3", "verify"}) {
        const auto answers = coordinator_->ask(name, line, soon());
        EXPECT_TRUE(answers.ok()) << answers.status();
      }
    }
    const auto refused = coordinator_->ask(name, "prepare alltoall 100", soon());
    EXPECT_THAT(messageOf(refused.status()), HasSubstr("allreduce only"));
    coordinator_ = *Coordinator::create();
  }
}

}  // namespace
}  // namespace colla::bench
