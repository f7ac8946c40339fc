// Real processes, real signals: what the survivors of a job get to know, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <tuple>

#include "support/processes.h"

namespace colla {
namespace {

using namespace std::chrono_literals;
using test::Processes;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kForever = "1000000000";

// Transport, operation, ranks.
using Fault = std::tuple<std::string, std::string, int>;

std::string nameOf(const ::testing::TestParamInfo<Fault>& info) {
  std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param) + "_" +
                     std::to_string(std::get<2>(info.param));
  std::ranges::replace(name, '-', '_');
  return name;
}

class FaultsTest : public ::testing::TestWithParam<Fault> {};

// Every survivor returns within 2 s, with the dead rank's number and host.
TEST_P(FaultsTest, SurvivorsNameTheKilledRank) {
  const auto [transport, operation, ranks] = GetParam();
  Processes job(ranks, {COLLA_MEMBER, operation, kForever, "200000", "60000"},
                {{"COLLA_TRANSPORT", transport}, {"UCX_TLS", "tcp"}});
  for (int rank = 0; rank < ranks; ++rank) {
    ASSERT_TRUE(job.says(rank, "going")) << job.end(rank).said;
  }
  const auto killed = std::chrono::steady_clock::now();
  job.signal(2, SIGKILL);
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == 2) continue;
    const auto ended = job.end(rank);
    EXPECT_EQ(ended.code, 3) << ended.said;
    EXPECT_LT(ended.when - killed, 2s);
    EXPECT_THAT(ended.said,
                AllOf(HasSubstr("peer=2 "), HasSubstr("peer lost"),
                      HasSubstr("rank 2 on host testhost"), Not(HasSubstr("slices or counts"))));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shm, FaultsTest,
    ::testing::Combine(::testing::Values("shm"),
                       ::testing::Values("barrier", "broadcast", "shared", "allreduce", "async",
                                         "reduce", "reduceScatter", "allgather", "allgatherv",
                                         "alltoall", "alltoallv", "gather", "scatter"),
                       ::testing::Values(4)),
    nameOf);
INSTANTIATE_TEST_SUITE_P(Tcp, FaultsTest,
                         ::testing::Combine(::testing::Values("tcp-plain"),
                                            ::testing::Values("barrier", "broadcast", "allreduce",
                                                              "async", "reduce", "reduceScatter",
                                                              "allgather", "allgatherv", "alltoall",
                                                              "alltoallv", "gather", "scatter"),
                                            ::testing::Values(4)),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Ucx, FaultsTest,
                         ::testing::Combine(::testing::Values("ucx"),
                                            ::testing::Values("barrier", "allreduce", "async",
                                                              "alltoall"),
                                            ::testing::Values(4)),
                         nameOf);
// So many that messages go by way of others, and few of them talk to the dead one.
INSTANTIATE_TEST_SUITE_P(Many, FaultsTest,
                         ::testing::Combine(::testing::Values("tcp-plain"),
                                            ::testing::Values("barrier", "broadcast", "allreduce",
                                                              "gather"),
                                            ::testing::Values(12)),
                         nameOf);

// A lost rank is noticed below the encryption: one operation is enough to see that it gets through.
INSTANTIATE_TEST_SUITE_P(Tls, FaultsTest,
                         ::testing::Combine(::testing::Values("tcp"),
                                            ::testing::Values("allreduce"),
                                            ::testing::Values(4, 12)),
                         nameOf);

class AlgorithmFaultsTest : public ::testing::TestWithParam<Fault> {};

// In the middle of an allreduce by name.
TEST_P(AlgorithmFaultsTest, SurvivorsNameTheKilledRank) {
  const auto [transport, algorithm, ranks] = GetParam();
  Processes job(ranks, {COLLA_MEMBER, "allreduce", kForever, "200000", "60000"},
                {{"COLLA_TRANSPORT", transport}, {"COLLA_ALGORITHM", algorithm}});
  for (int rank = 0; rank < ranks; ++rank) {
    ASSERT_TRUE(job.says(rank, "going")) << job.end(rank).said;
  }
  const auto killed = std::chrono::steady_clock::now();
  job.signal(2, SIGKILL);
  for (const int rank : {0, 1, 3}) {
    const auto ended = job.end(rank);
    EXPECT_EQ(ended.code, 3) << ended.said;
    EXPECT_LT(ended.when - killed, 2s);
    EXPECT_THAT(ended.said, AllOf(HasSubstr("peer=2 "), HasSubstr("peer lost"),
                                  HasSubstr("rank 2 on host testhost")));
    // The only one that adds in another order says so, once.
    const auto warning = HasSubstr("the ring adds in another order");
    if (algorithm == "ring" && rank == 0) {
      EXPECT_THAT(ended.said, warning);
    } else {
      EXPECT_THAT(ended.said, Not(warning));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AlgorithmFaultsTest,
                         ::testing::Combine(::testing::Values("shm", "tcp-plain"),
                                            ::testing::Values("flat", "tree", "halving", "ring",
                                                              "direct"),
                                            ::testing::Values(4)),
                         nameOf);

// Of a message only the other end knows: rank 3, which waits for rank 2's. When it leaves, so do
// those that wait for it, each with the name of one that is gone.
TEST(MessageFaultsTest, TheOtherEndOfAMessageIsTold) {
  for (const char* transport : {"shm", "tcp"}) {
    Processes job(4, {COLLA_MEMBER, "message", kForever, "200000", "60000"},
                  {{"COLLA_TRANSPORT", transport}});
    for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(job.says(rank, "going"));
    const auto killed = std::chrono::steady_clock::now();
    job.signal(2, SIGKILL);
    for (const int rank : {3, 1, 0}) {
      const auto ended = job.end(rank);
      EXPECT_EQ(ended.code, 3) << ended.said;
      EXPECT_LT(ended.when - killed, 2s) << "rank " << rank << " over " << transport;
      EXPECT_THAT(ended.said, AllOf(HasSubstr("peer="), HasSubstr("peer lost")));
      if (rank == 3) {
        EXPECT_THAT(ended.said, AllOf(HasSubstr("peer=2 "), HasSubstr("rank 2 on host testhost")));
      }
    }
  }
}

// Ranks of so many are not all connected from the start, and the root has yet to hear from the dead
// one, which would be the one to connect.
TEST(UnmetFaultsTest, SurvivorsNameARankThatDiedBeforeTheyMet) {
  for (const char* transport : {"tcp-plain", "tcp"}) {
    Processes job(12, {COLLA_MEMBER, "gatherBut5", kForever, "200000", "60000"},
                  {{"COLLA_TRANSPORT", transport}});
    for (int rank = 0; rank < 12; ++rank) ASSERT_TRUE(job.says(rank, " of 12"));
    const auto killed = std::chrono::steady_clock::now();
    job.signal(5, SIGKILL);
    for (int rank = 0; rank < 12; ++rank) {
      if (rank == 5) continue;
      const auto ended = job.end(rank);
      EXPECT_EQ(ended.code, 3) << ended.said;
      EXPECT_LT(ended.when - killed, 2s) << "rank " << rank << " over " << transport;
      EXPECT_THAT(ended.said, AllOf(HasSubstr("peer=5 "), HasSubstr("peer lost"),
                                    HasSubstr("rank 5 on host testhost")));
    }
  }
}

// One rank that can't go on alone: the others are told at once, and why.
TEST(MemoryFaultsTest, EverybodyLearnsThatOneRankCannotMapWhatIsShared) {
  // Of boards of 2 MiB its own fits, and one of another; of the common memory a half.
  for (const char* operation : {"tightSubgroup", "tightCommon"}) {
    Processes job(4, {COLLA_MEMBER, operation, "1", "6000000", "60000"},
                  {{"COLLA_TRANSPORT", "shm"}});
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_TRUE(job.says(rank, "can't map", 10s))
          << operation << ", rank " << rank << ": " << job.end(rank, 0s).said;
    }
  }
}

// Sends `bytes` to a port of this host and goes away.
void knock(std::uint16_t port, const std::string& bytes) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    EXPECT_GE(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
  }
  close(fd);
}

// Strangers at the door: refused, logged once for each kind, and the job goes on.
TEST(StrangersTest, TheJobGoesOn) {
  for (const char* transport : {"tcp", "tcp-plain"}) {
    Processes job(2, {COLLA_MEMBER, "allreduce", "1000", "200000", "60000"},
                  {{"COLLA_TRANSPORT", transport}});
    ASSERT_TRUE(job.says(0, "going"));
    const auto ports = job.ports(0);
    ASSERT_EQ(ports.size(), 1U);
    std::mt19937 random(5);
    for (int visit = 0; visit < 200; ++visit) {
      std::string bytes(random() % 3000, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      knock(ports[0], bytes);
    }
    for (int rank = 0; rank < 2; ++rank) {
      const auto ended = job.end(rank, 50s);
      EXPECT_EQ(ended.code, 0) << transport << ": " << ended.said;
      EXPECT_THAT(ended.said, HasSubstr("done"));
      EXPECT_LE(std::ranges::count(ended.said, '\n'), 8) << ended.said;
      if (rank == 0) {
        EXPECT_THAT(ended.said, HasSubstr("refused a connection"));
      }
    }
  }
}

class StopTest : public ::testing::TestWithParam<Fault> {};

// A peer that stops without dying: the deadline's error names it.
TEST_P(StopTest, TheDeadlineNamesTheStoppedRank) {
  const auto [transport, operation, ranks] = GetParam();
  Processes job(ranks, {COLLA_MEMBER, operation, kForever, "200000", "0"},
                {{"COLLA_TRANSPORT", transport}, {"COLLA_COLLECTIVE_TIMEOUT", "1"}});
  for (int rank = 0; rank < ranks; ++rank) {
    ASSERT_TRUE(job.says(rank, "going")) << job.end(rank).said;
  }
  job.signal(2, SIGSTOP);
  const bool sums = operation == "allreduce" || operation == "shared" || operation == "async";
  const std::string what = sums ? "allreduce of 50,000 float32 (" : operation;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == 2) continue;
    const auto ended = job.end(rank);
    EXPECT_EQ(ended.code, 3) << ended.said;
    EXPECT_THAT(ended.said, AllOf(HasSubstr("peer=2 "), HasSubstr("timeout"),
                                  HasSubstr("rank 2 on host testhost did not answer for 1"),
                                  HasSubstr(" s in " + what), HasSubstr("(collective_timeout)\n")));
  }
}
INSTANTIATE_TEST_SUITE_P(Few, StopTest,
                         ::testing::Combine(::testing::Values("shm", "tcp", "tcp-plain"),
                                            ::testing::Values("allreduce"), ::testing::Values(4)),
                         nameOf);
// Each meets at the board in its own way: no memory, everybody's where it lies, and through
// staging.
INSTANTIATE_TEST_SUITE_P(Shared, StopTest,
                         ::testing::Combine(::testing::Values("shm"),
                                            ::testing::Values("barrier", "shared", "broadcast",
                                                              "reduceScatter", "alltoallv",
                                                              "async"),
                                            ::testing::Values(4)),
                         nameOf);
// So many that messages go by way of others.
INSTANTIATE_TEST_SUITE_P(Many, StopTest,
                         ::testing::Combine(::testing::Values("tcp-plain"),
                                            ::testing::Values("barrier", "allreduce", "broadcast",
                                                              "reduce", "gather", "allgather"),
                                            ::testing::Values(12)),
                         nameOf);

}  // namespace
}  // namespace colla
