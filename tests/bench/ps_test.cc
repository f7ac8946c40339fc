// `colla bench ps` as users call it, with small data sets. Checks what comes out, never how fast.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "bench/bench_command.h"

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PsTest : public colla::bench::BenchCommand {
 protected:
  PsTest() : BenchCommand("ps") {}
};

// Several models and batches: servers serve one training after another.
TEST_F(PsTest, TrainsWithAndWithoutServers) {
  const auto list =
      measure("--samples 400 --parts train --peers none --models lr,mlp --batch 20,100");
  std::map<std::string, int> systems;
  std::map<std::string, double> losses;  // Of allreduce.
  for (const auto& one : list) {
    const std::string system = one["system"];
    const std::string point = one["model"].get<std::string>() + one["batch"].dump();
    ++systems[system];
    EXPECT_EQ(one["part"], "train");
    EXPECT_GT(one["worker_pss_bytes"], 1'000'000) << one;
    EXPECT_EQ(one.contains("server_pss_bytes"), system != "colla-2") << one;
    // The same bits.
    if (system == "colla-2") losses[point] = one["loss"];
    if (system == "colla-ps-sync") {
      EXPECT_EQ(one["loss"].get<double>(), losses[point]) << point;
    }
  }
  for (const char* system : {"colla-2", "colla-ps-sync", "colla-ps-async"}) {
    EXPECT_EQ(systems[system], 4) << system;
    EXPECT_THAT(out_, HasSubstr(std::string("  ") + system + " "));
  }
}

// Agents check every parameter: a wrong sum would be an error.
TEST_F(PsTest, PushesThroughOneServer) {
  // Three blocks, the last of them short.
  const auto list = measure("--parts push --workers 1,3 --bytes 2101248");
  ASSERT_GE(list.size(), 3U);
  EXPECT_EQ(list.front()["system"], "memory-1");
  for (const auto& one : list) {
    EXPECT_EQ(one["part"], "push");
    EXPECT_EQ(one["bytes"], 2101248);
    EXPECT_GT(one["of_memory"], 0.0);
    if (!one["system"].get<std::string>().starts_with("colla-push-")) continue;
    // Gradients one way, parameters the other.
    EXPECT_NEAR(one["bytes_per_s"].get<double>() * one["step_seconds"].get<double>(),
                2.0 * one["workers"].get<int>() * 2101248, 1);
  }
  EXPECT_EQ(bench("--parts push --bytes 4G --workers 64"), 1);
  EXPECT_THAT(error_, AllOf(HasSubstr("up to 64 workers"), HasSubstr("--bytes")));
}

TEST_F(PsTest, BothPartsInOneReport) {
  measure("--samples 400 --peers none --models softmax --batch 100 --workers 2 --bytes 1M");
  EXPECT_THAT(out_,
              AllOf(HasSubstr("colla-ps-sync"), HasSubstr("colla-push-2"), HasSubstr("of memory")));
}

// Only where an earlier run has installed them: tests install nothing.
TEST_F(PsTest, PeersTrainTheSame) {
  std::map<std::string, int> systems;
  for (const auto& one : measure("--samples 400 --parts train --models lr,mlp --batch 100")) {
    ++systems[one["system"].get<std::string>()];
  }
  int there = 0;
  for (const std::string peer : {"mxnet", "tf"}) {
    const bool leftOut = error_.find(peer + " is left out") != std::string::npos;
    EXPECT_EQ(systems[peer], leftOut ? 0 : 2) << error_;
    if (!leftOut) ++there;
  }
  if (there == 0) GTEST_SKIP() << "no peer is installed: colla bench ps --peers mxnet,tf does it";
}

TEST_F(PsTest, MissingPeersAreLeftOutWithALine) {
  ASSERT_EQ(
      bench("--samples 400 --rounds 1 --seconds 0.01 --parts train --models softmax --batch 100",
            "XDG_CACHE_HOME='" + directory_ + "/nothing'"),
      0)
      << error_;
  EXPECT_THAT(error_, AllOf(HasSubstr("mxnet is left out"), HasSubstr("--peers mxnet installs it"),
                            HasSubstr("tf is left out")));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/nothing"));
}

TEST_F(PsTest, PeerThatCannotBeInstalledIsAnError) {
  EXPECT_EQ(bench("--parts train --peers mxnet",
                  "XDG_CACHE_HOME='" + directory_ + "/c' COLLA_PEER_PYTHON=/nonexistent/python"),
            1);
  EXPECT_THAT(out_, IsEmpty());
  EXPECT_THAT(error_, HasSubstr("mxnet: cannot make a Python environment"));
}

TEST_F(PsTest, WrongCommandLinesAreUsageErrors) {
  EXPECT_EQ(bench("--batch 33"), 2);
  EXPECT_THAT(error_, HasSubstr("--batch 33 must be even"));
  EXPECT_EQ(bench("--models deepfam"), 2);
  EXPECT_EQ(bench("--peers horovod"), 2);
  EXPECT_EQ(bench("--parts nothing"), 2);
  EXPECT_EQ(bench("--workers 0"), 2);
  EXPECT_EQ(bench("--bytes 1X"), 2);
}

}  // namespace
