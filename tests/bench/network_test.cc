// `colla bench network` as users call it. Checks what comes out, never how fast.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>

#include "bench/bench_command.h"

namespace {

using ::testing::HasSubstr;

class NetworkTest : public colla::bench::BenchCommand {
 protected:
  NetworkTest() : BenchCommand("network") {}
};

TEST_F(NetworkTest, MeasuresEveryWireAndWhatLeavesAHost) {
  if (geteuid() != 0) GTEST_SKIP() << "making network namespaces needs root";
  const auto list = measure("--parts pair,levels,link --bytes 4K,2M --peers none");
  std::set<std::string> seen;
  for (const auto& one : list) {
    const auto part = one["part"].get<std::string>();
    seen.insert(part + " " + one["system"].get<std::string>());
    EXPECT_EQ(one["np"], part == "levels" ? 4 : 2);
    EXPECT_GT(one["seconds"], 0.0);
    EXPECT_GT(one["sent_bytes"], one["bytes"].get<double>() / 2) << one;
    EXPECT_EQ(one.contains("of_link"), part == "link");
  }
  std::set<std::string> expected = {"pair openssl", "levels colla-one-level"};
  for (const std::string part : {"pair ", "levels ", "link "}) {
    for (const char* wire : {"tcp-plain", "tcp", "ucx"}) expected.insert(part + "colla-" + wire);
  }
  EXPECT_EQ(seen, expected);
  EXPECT_THAT(out_, HasSubstr("sent/bytes"));
}

TEST_F(NetworkTest, PeersRunOnBothHostsOrSayWhatTheyLack) {
  if (geteuid() != 0) GTEST_SKIP() << "making network namespaces needs root";
  const auto list = measure("--parts pair --bytes 4K");
  std::set<std::string> systems;
  for (const auto& one : list) systems.insert(one["system"].get<std::string>());
  for (const char* peer : {"gloo", "openmpi", "mpich"}) {
    EXPECT_NE(systems.contains(peer),
              error_.find(std::string(peer) + " is left out") != std::string::npos)
        << error_;
  }
}

TEST_F(NetworkTest, UsageErrorsExitWithTwo) {
  for (const char* arguments : {"--parts cable", "--bytes 4Q", "--peers nccl"}) {
    EXPECT_EQ(bench(arguments), 2) << arguments;
  }
}

}  // namespace
