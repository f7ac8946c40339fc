// Whole benchmarks through the command, small ones. They check what comes out, never how fast.
#include "bench/command.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

namespace colla::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct Outcome {
  int exitCode = -1;
  std::string out;
  std::string error;
};

Outcome bench(const std::vector<std::string>& arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.exitCode = benchCommand(arguments);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.error = testing::internal::GetCapturedStderr();
  return outcome;
}

class BenchCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "bench_command_test_" + std::to_string(getpid());
    std::filesystem::create_directories(directory_ + "/tmp");
    setenv("TMPDIR", (directory_ + "/tmp").c_str(), 1);
  }
  void TearDown() override {
    // Whatever was measured, and however it ended.
    EXPECT_TRUE(std::filesystem::is_empty(directory_ + "/tmp"));
    unsetenv("TMPDIR");
    std::filesystem::remove_all(directory_);
  }

  // A quick run; its results by JSON.
  nlohmann::json measure(std::vector<std::string> arguments) {
    const std::string file = directory_ + "/out.json";
    arguments.insert(arguments.begin(),
                     {"collectives", "--rounds", "1", "--seconds", "0.005", "--json", file});
    const Outcome outcome = bench(arguments);
    error_ = outcome.error;
    table_ = outcome.out;
    EXPECT_EQ(outcome.exitCode, 0) << outcome.error;
    std::ifstream in(file);
    return nlohmann::json::parse(in, nullptr, false);
  }

  std::string directory_;
  std::string error_;
  std::string table_;
};

std::set<std::string> systemsIn(const nlohmann::json& list) {
  std::set<std::string> systems;
  for (const auto& one : list) systems.insert(one["system"].get<std::string>());
  return systems;
}

TEST_F(BenchCommandTest, MeasuresEverySystemAtEverySize) {
  const auto list = measure({"--bytes", "1K,64K", "--np", "2"});
  ASSERT_TRUE(list.is_array());
  const auto systems = systemsIn(list);
  for (const char* system : {"colla", "colla-private", "bare"}) {
    EXPECT_TRUE(systems.contains(system)) << system;
  }
  // Peers run where they are installed; where not, a line says what to install.
  for (const char* peer : {"gloo", "openmpi"}) {
    EXPECT_NE(systems.contains(peer),
              error_.find(std::string(peer) + " is left out") != std::string::npos)
        << error_;
  }
  EXPECT_EQ(list.size(), 2 * systems.size());
  std::set<std::string> seen;
  for (const auto& one : list) {
    EXPECT_EQ(one["op"], "allreduce");
    EXPECT_EQ(one["np"], 2);
    EXPECT_TRUE(one["bytes"] == 1024 || one["bytes"] == 65536);
    EXPECT_GT(one["seconds"], 0.0);
    EXPECT_NEAR(one["gb_per_s"].get<double>() * one["seconds"].get<double>() * 1e9, one["bytes"],
                1e-6);
    EXPECT_TRUE(seen.insert(one["system"].dump() + one["bytes"].dump()).second) << one;
  }
  EXPECT_THAT(table_, StartsWith("op "));
  for (const std::string& system : systems) EXPECT_THAT(table_, HasSubstr("  " + system + " "));
}

TEST_F(BenchCommandTest, FourRanksDoEveryOperation) {
  const auto list =
      measure({"--np", "4", "--bytes", "1008", "--ops",
               "allreduce,broadcast,reduce,reduce_scatter,allgather,alltoall,barrier"});
  ASSERT_TRUE(list.is_array());
  for (const auto& system : systemsIn(list)) {
    std::set<std::string> operations;
    for (const auto& one : list) {
      if (one["system"] == system) operations.insert(one["op"]);
    }
    EXPECT_EQ(operations.size(), system == "bare" ? 1U : 7U) << system;
  }
  for (const auto& one : list) {
    // Four equal parts of whole floats.
    EXPECT_EQ(one["bytes"], one["op"] == "barrier" ? 0 : 1008) << one;
  }
}

TEST_F(BenchCommandTest, BuffersChooseCollasSystems) {
  const auto list = measure({"--bytes", "4K", "--buffers", "private", "--peers", "none"});
  EXPECT_EQ(systemsIn(list), (std::set<std::string>{"colla-private", "bare"}));
}

TEST_F(BenchCommandTest, LoopbackComparesPlainWithTls) {
  const auto list = measure({"--net", "loop", "--bytes", "4K,1M", "--np", "3", "--peers", "none"});
  EXPECT_EQ(systemsIn(list), (std::set<std::string>{"colla-tcp-plain", "colla-tcp"}));
  EXPECT_EQ(list.size(), 4U);
}

TEST_F(BenchCommandTest, VethJoinsTwoNamespaces) {
  if (geteuid() != 0) GTEST_SKIP() << "making network namespaces needs root";
  const auto list = measure({"--net", "veth", "--bytes", "4K,1M", "--np", "3", "--peers", "none"});
  EXPECT_EQ(systemsIn(list), (std::set<std::string>{"colla-tcp-plain", "colla-tcp"}));
  EXPECT_EQ(list.size(), 4U);
}

TEST_F(BenchCommandTest, MissingPeerIsAnErrorOnlyIfItWasNamed) {
  setenv("COLLA_TORCH_PYTHON", "/nonexistent/python", 1);
  const Outcome named = bench({"collectives", "--bytes", "1K", "--peers", "gloo"});
  unsetenv("COLLA_TORCH_PYTHON");
  EXPECT_EQ(named.exitCode, 1);
  EXPECT_THAT(named.out, IsEmpty());
  EXPECT_THAT(named.error,
              AllOf(HasSubstr("gloo: no Python with torch"), HasSubstr("pip install")));
}

TEST_F(BenchCommandTest, UsageErrorsExitWithTwoAndOneLine) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"colectives"},
      {"collectives", "--bytes", "4Q"},
      {"collectives", "--bytes", "2"},
      {"collectives", "--ops", "allreduce,add"},
      {"collectives", "--np", "1"},
      {"collectives", "--np", "many"},
      {"collectives", "--peers", "nccl"},
      {"collectives", "--buffers", "big"},
      {"collectives", "--net", "wire"},
      {"collectives", "--rounds", "0"},
      {"collectives", "--unknown"},
      {"collectives", "extra"},
      {"train", "--models", "mlp,resnet"},
      {"train", "--batch", "0"},
      {"train", "--batch", "25"},
      {"train", "--batch", "700"},
      {"train", "--samples", "150", "--batch", "100"},
      {"train", "--peers", "gloo"},
      {"train", "--rounds", "0"},
      {"train", "extra"},
  };
  for (const auto& arguments : wrong) {
    const Outcome outcome = bench(arguments);
    EXPECT_EQ(outcome.exitCode, 2) << outcome.error;
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.error, StartsWith("colla bench: "));
    EXPECT_EQ(std::ranges::count(outcome.error, '\n'), 1) << outcome.error;
  }
}

TEST_F(BenchCommandTest, HelpNamesEveryOption) {
  const Outcome outcome = bench({"collectives", "--help"});
  EXPECT_EQ(outcome.exitCode, 0);
  for (const char* option :
       {"--np", "--ops", "--bytes", "--peers", "--buffers", "--net", "--rounds", "--json"}) {
    EXPECT_THAT(outcome.out, HasSubstr(option));
  }
}

TEST_F(BenchCommandTest, TrainHelpNamesEveryOption) {
  const Outcome outcome = bench({"train", "--help"});
  EXPECT_EQ(outcome.exitCode, 0);
  for (const char* option :
       {"--models", "--batch", "--peers", "--samples", "--rounds", "--seconds", "--json"}) {
    EXPECT_THAT(outcome.out, HasSubstr(option));
  }
}

TEST_F(BenchCommandTest, BatchThatDoesNotFitSaysWhy) {
  EXPECT_THAT(bench({"train", "--models", "lr", "--batch", "300"}).error,
              HasSubstr("--batch 300 must be even and divide the 10000 samples of lr"));
}

// This program has no worker with libtorch next to it, as a colla that was built without.
TEST_F(BenchCommandTest, TrainWithoutLibtorchSaysSo) {
  const Outcome outcome = bench({"train", "--peers", "none"});
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.error, HasSubstr("was built without libtorch"));
}

TEST_F(BenchCommandTest, FileThatCannotBeWrittenIsToldAtOnce) {
  const Outcome outcome = bench({"collectives", "--json", "/nonexistent/out.json"});
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_THAT(outcome.error, HasSubstr("cannot write /nonexistent/out.json: No such file"));
}

TEST_F(BenchCommandTest, MoreMemoryThanThereIsIsRefused) {
  const Outcome outcome = bench({"collectives", "--np", "128", "--bytes", "4G", "--peers", "none"});
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_THAT(outcome.error, HasSubstr("GB are free: choose smaller --bytes"));
}

TEST_F(BenchCommandTest, InterruptEndsItAndLeavesNothing) {
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    // Hours, if nobody interrupts.
    _exit(benchCommand({"collectives", "--peers", "none", "--bytes", "1K", "--rounds", "1000",
                        "--seconds", "60"}));
  }
  // From its first file on, signals are its own business.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::filesystem::is_empty(directory_ + "/tmp") &&
         std::chrono::steady_clock::now() < limit) {
    usleep(1000);
  }
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT);
}

}  // namespace
}  // namespace colla::bench
