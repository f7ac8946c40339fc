// Jobs of real processes, with and without a launcher.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "job/cpu.h"
#include "support/processes.h"
#include "support/shell.h"

namespace colla {
namespace {

using namespace std::chrono_literals;
using test::Processes;
using test::shell;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(JobTest, ProcessesMeetOnEveryTransport) {
  for (const char* transport : {"auto", "shm", "tcp", "tcp-plain"}) {
    Processes job(3, {COLLA_MEMBER, "allreduce", "3", "100000", "20000"},
                  {{"COLLA_TRANSPORT", transport}, {"COLLA_SLICES", "6"}});
    for (int rank = 0; rank < 3; ++rank) {
      const auto ended = job.end(rank);
      EXPECT_EQ(ended.code, 0) << transport << ": " << ended.said;
      EXPECT_THAT(ended.said, AllOf(HasSubstr("rank " + std::to_string(rank) + " of 3, slices 6"),
                                    HasSubstr("done")));
    }
  }
}

TEST(JobTest, MemoryIsInCommonOnOneHost) {
  Processes shared(3, {COLLA_MEMBER, "common", "5", "0", "20000"}, {{"COLLA_TRANSPORT", "shm"}});
  for (int rank = 0; rank < 3; ++rank) {
    const auto ended = shared.end(rank);
    EXPECT_EQ(ended.code, 0) << ended.said;
  }
  Processes apart(2, {COLLA_MEMBER, "common", "1", "0", "20000"}, {{"COLLA_TRANSPORT", "tcp"}});
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(apart.end(rank).said, HasSubstr("the workers of this job share no memory"));
  }
}

TEST(JobTest, MoreConnectionsPerPairCarryTheSame) {
  Processes job(2, {COLLA_MEMBER, "allreduce", "3", "4000000", "20000"},
                {{"COLLA_TRANSPORT", "tcp"}, {"COLLA_TCP_CONNECTIONS", "3"}});
  for (int rank = 0; rank < 2; ++rank) {
    const auto ended = job.end(rank);
    EXPECT_EQ(ended.code, 0) << ended.said;
  }
}

// A mixed job is refused with both values, at once on both sides.
TEST(JobTest, DifferentSettingsAreRefusedWithBothValues) {
  for (const char* transport : {"shm", "tcp"}) {
    Processes job(2, {COLLA_MEMBER, "allreduce", "3", "1000", "20000"},
                  {{"COLLA_TRANSPORT", transport}, {"COLLA_START_TIMEOUT", "300"}},
                  {{1, {{"COLLA_ALGORITHM", "ring"}}}});
    for (int rank = 0; rank < 2; ++rank) {
      const auto ended = job.end(rank);
      EXPECT_EQ(ended.code, 1) << ended.said;
      EXPECT_THAT(ended.said, AllOf(HasSubstr("algorithm=ring"), HasSubstr("algorithm=auto")))
          << transport << " rank " << rank;
    }
  }
}

// Bits depend on the threads, whether they were asked for or came of the defaults.
TEST(JobTest, DifferentThreadsAreRefusedWithBothValues) {
  const auto expectRefused = [](Processes job, int first, int second) {
    for (int rank = 0; rank < 2; ++rank) {
      const auto ended = job.end(rank);
      EXPECT_EQ(ended.code, 1) << ended.said;
      EXPECT_THAT(ended.said, AllOf(HasSubstr("threads in use=" + std::to_string(first)),
                                    HasSubstr("threads in use=" + std::to_string(second))));
    }
  };
  const std::vector<std::string> member = {COLLA_MEMBER, "allreduce", "3", "1000", "20000"};
  expectRefused(Processes(2, member, {{"COLLA_THREADS", "2"}}, {{1, {{"COLLA_THREADS", "3"}}}}), 2,
                3);
  const int cores = job::usableCpus();
  if (cores < 2) return;
  // Rank 1 believes to have the host for itself.
  expectRefused(Processes(2, member, {{"COLLA_THREADS", "0"}},
                          {{1, {{"COLLA_LOCAL_SIZE", "1"}, {"COLLA_LOCAL_RANK", "0"}}}}),
                cores / 2, cores);
}

TEST(JobTest, MoreWorkersThanSlicesIsRefused) {
  Processes job(2, {COLLA_MEMBER, "none", "1", "0", "0"}, {{"COLLA_SLICES", "1"}});
  const auto ended = job.end(0);
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.said, HasSubstr("2 workers can't share 1 slices (COLLA_SLICES)"));
}

TEST(JobTest, BadSettingsAreOneClearLine) {
  const std::map<std::string, std::string> wrong = {{"COLLA_TRANSPORT", "pigeon"},
                                                    {"COLLA_ALGORITHM", "fastest"},
                                                    {"COLLA_TCP_CONNECTIONS", "99"},
                                                    {"COLLA_LOG", "loud"},
                                                    {"COLLA_COLLECTIVE_TIMEOUT", "x"},
                                                    {"COLLA_CONFIG", "/nonexistent.toml"},
                                                    {"COLLA_THREADS", "-5"}};
  for (const auto& [variable, value] : wrong) {
    Processes job(2, {COLLA_MEMBER, "none", "1", "0", "0"}, {{variable, value}});
    const auto ended = job.end(0);
    EXPECT_EQ(ended.code, 1) << variable;
    EXPECT_THAT(ended.said, HasSubstr(value));
    EXPECT_EQ(std::ranges::count(ended.said, '\n'), 1) << ended.said;
  }
}

TEST(JobTest, AMissingRankIsNamed) {
  // Rank 1 is there, but of another job.
  Processes job(2, {COLLA_MEMBER, "none", "1", "0", "0"}, {{"COLLA_START_TIMEOUT", "1"}},
                {{1, {{"COLLA_SIZE", "1"}, {"COLLA_LOCAL_SIZE", "1"}, {"COLLA_RANK", "0"}}}});
  const auto ended = job.end(0);
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.said, AllOf(HasSubstr("timeout"), HasSubstr("rank 1")));
}

TEST(JobTest, WithoutALauncherItIsAJobOfOne) {
  const auto [code, said] = shell("env -i " COLLA_MEMBER " allreduce 3 1000 1000");
  EXPECT_EQ(code, 0) << said;
  EXPECT_THAT(said, HasSubstr("rank 0 of 1"));
}

// A slip of the pen is noticed, once and by whom.
TEST(JobTest, UnknownVariablesAreOneLine) {
  const auto [code, said] =
      shell("env -i COLLA_HOST=a COLLA_TRANPORT=tcp COLLA_SPIN=1 COLLA_SPIN_US=1 " COLLA_MEMBER
            " allreduce 3 1000 1000");
  EXPECT_EQ(code, 0) << said;
  EXPECT_THAT(said, HasSubstr(" W rank 0 host a: COLLA_SPIN, COLLA_TRANPORT are set, but nothing "
                              "reads them (`colla settings` lists what there is)\n"));
  Processes job(2, {COLLA_MEMBER, "barrier", "1", "0", "20000"}, {{"COLLA_TRANPORT", "tcp"}});
  EXPECT_THAT(job.end(0).said, HasSubstr("COLLA_TRANPORT is set, but nothing reads it"));
  EXPECT_THAT(job.end(1).said, Not(HasSubstr("COLLA_TRANPORT")));
}

// Variables as torchrun sets them; `own` come after them.
std::string underTorchrun(int rank, const std::string& own) {
  const std::string number = std::to_string(rank);
  return "timeout 30 env -i RANK=" + number + " LOCAL_RANK=" + number +
         " WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29400 "
         "COLLA_JOB_ID=job-" +
         std::to_string(getpid()) + " " + own + " " COLLA_MEMBER " barrier 1 0 20000";
}

// TCP proves nothing without a secret, not even on one host.
TEST(JobTest, TcpWithoutASecretIsRefused) {
  for (const char* transport : {"tcp", "tcp-plain"}) {
    const auto [code, said] = shell(underTorchrun(0, std::string("COLLA_TRANSPORT=") + transport));
    EXPECT_EQ(code, 1) << said;
    EXPECT_THAT(said,
                HasSubstr(std::string("the transport ") + transport +
                          " needs the job's secret: use `colla run` or set COLLA_SECRET_FILE"));
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  }
}

// As on Debian, where a host's own name is 127.0.1.1.
TEST(JobTest, AStoreThatOtherHostsCantReachIsRefused) {
  const std::string secret = ::testing::TempDir() + "job-secret-" + std::to_string(getpid());
  std::ofstream(secret) << std::string(44, 's');
  std::filesystem::permissions(secret, std::filesystem::perms::owner_read);
  const auto [code, said] = shell(
      underTorchrun(0, "LOCAL_WORLD_SIZE=1 COLLA_START_TIMEOUT=30 COLLA_SECRET_FILE=" + secret));
  std::filesystem::remove(secret);
  EXPECT_EQ(code, 1) << said;
  EXPECT_THAT(
      said, AllOf(HasSubstr("localhost is "), HasSubstr(" here, which other hosts can't reach: set "
                                                        "COLLA_STORE=ADDRESS:PORT")));
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

TEST(JobTest, WhoWaitsForRank0SaysSo) {
  const auto [code, said] = shell(underTorchrun(1, "COLLA_START_TIMEOUT=6"));
  EXPECT_EQ(code, 1) << said;
  EXPECT_THAT(said, AllOf(HasSubstr("I rank 1 host "),
                          HasSubstr(": waiting for rank 0, where the "
                                    "others meet, 5 s\n"),
                          HasSubstr("rank 0 did not come within 6 s"),
                          HasSubstr("was it started on this host?"), Not(HasSubstr("unix:"))));
}

// Whoever of them is there: nobody else knows.
TEST(JobTest, OneOfThoseWhoWaitForRank0SaysSo) {
  const auto member = [](int rank) {
    return underTorchrun(rank, "WORLD_SIZE=5 LOCAL_WORLD_SIZE=5 COLLA_START_TIMEOUT=6");
  };
  const auto [code, said] =
      shell("{ " + member(2) + " & " + member(3) + " & " + member(4) + " & wait; }");
  const std::string line = ": waiting for rank 0, where the others meet, 5 s\n";
  EXPECT_THAT(said, HasSubstr(line));
  EXPECT_EQ(said.find(line), said.rfind(line)) << said;
}

// Real mpirun, no launcher of ours: never N separate jobs.
TEST(JobTest, UnderMpirunItJoinsItsPeers) {
  const auto [code, said] = shell(
      "timeout 60 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
      "mpirun --oversubscribe -np 3 " COLLA_MEMBER " allreduce 5 100000 20000");
  EXPECT_EQ(code, 0) << said;
  for (const char* rank : {"rank 0 of 3", "rank 1 of 3", "rank 2 of 3"}) {
    EXPECT_THAT(said, HasSubstr(rank));
  }
}

// A Python with torch: the user's choice, or the one that set-up made; empty if there is none.
std::string pythonWithTorch() {
  const char* const chosen = std::getenv("COLLA_TORCH_PYTHON");
  for (const std::string python :
       {chosen == nullptr ? "" : chosen, COLLA_SOURCE "/.venv/bin/python"}) {
    constexpr auto kLook =
        " -c \"import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)\"";
    if (!python.empty() && shell(python + kLook).code == 0) return python;
  }
  return "";
}

TEST(JobTest, UnderTorchrunItJoinsItsPeers) {
  const std::string python = pythonWithTorch();
  if (python.empty()) GTEST_SKIP() << "no torch in .venv: ./test without Torch_DIR installs it";
  // Stand-alone: on this host, at a port that is free.
  const auto [code, said] =
      shell("timeout -k 5 50 " + python +
            " -m torch.distributed.run --standalone --no-python --nproc-per-node 2 " COLLA_MEMBER
            " allreduce 5 100000 20000");
  EXPECT_EQ(code, 0) << said;
  EXPECT_THAT(said, AllOf(HasSubstr("rank 0 of 2"), HasSubstr("rank 1 of 2")));
}

}  // namespace
}  // namespace colla
