// Processes that are in several jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/processes.h"
#include "support/shell.h"

namespace colla {
namespace {

using test::Processes;
using ::testing::HasSubstr;

class JobsTest : public ::testing::TestWithParam<const char*> {};

// As under `colla run`, whose store is there from the first job to the last.
TEST_P(JobsTest, WithALauncherOfOurs) {
  for (const char* transport : {"shm", "tcp"}) {
    Processes processes(3, {COLLA_JOBS, GetParam()},
                        {{"COLLA_TRANSPORT", transport}, {"COLLA_START_TIMEOUT", "15"}});
    for (int rank = 0; rank < 3; ++rank) {
      const auto ended = processes.end(rank);
      EXPECT_EQ(ended.code, 0) << transport << ", rank " << rank << ": " << ended.said;
      EXPECT_THAT(ended.said, HasSubstr("done"));
    }
  }
}

void expectAllDone(const std::string& command) {
  const auto [code, said] = test::shell(command);
  EXPECT_EQ(code, 0) << said;
  std::size_t done = 0;
  for (auto at = said.find("done"); at != std::string::npos; at = said.find("done", at + 1)) ++done;
  EXPECT_EQ(done, 3U) << said;
}

void runUnderMpirun(const std::string& variables, const std::string& mode) {
  expectAllDone(
      "timeout 60 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
      "COLLA_START_TIMEOUT=15 " +
      variables + " mpirun --oversubscribe -np 3 " COLLA_JOBS " " + mode);
}

// Rank 0 serves the store, and each of its jobs may be the one that does.
TEST_P(JobsTest, UnderMpirun) { runUnderMpirun("", GetParam()); }

TEST_P(JobsTest, UnderMpirunAtAPort) {
  const std::string secret = ::testing::TempDir() + "jobs-secret-" + std::to_string(getpid());
  std::ofstream(secret) << std::string(44, 's');
  std::filesystem::permissions(secret, std::filesystem::perms::owner_read);
  const int port = 20000 + getpid() % 12000;
  runUnderMpirun("COLLA_TRANSPORT=tcp COLLA_SECRET_FILE=" + secret +
                     " COLLA_STORE=127.0.0.1:" + std::to_string(port),
                 GetParam());
  std::filesystem::remove(secret);
}

// The last of them serves it.
TEST_P(JobsTest, ByLists) {
  std::string hosts;
  for (const int number : {1, 2, 3}) {
    hosts += "localhost:" + std::to_string(1024 + (getpid() * 4 + number) % 60000) + " ";
  }
  std::string command;
  for (const char* rank : {"0", "1", "2"}) {
    command += std::string("timeout 60 env COLLA_START_TIMEOUT=15 COLLA_WORKER_HOSTS='") + hosts +
               "' COLLA_TASK_INDEX=" + rank + " " COLLA_JOBS " " + GetParam() + " & ";
  }
  expectAllDone(command + "wait");
}

INSTANTIATE_TEST_SUITE_P(All, JobsTest, ::testing::Values("after", "quick", "together"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace colla
