// `colla bench collectives` as users call it, and what all benchmarks refuse. Checks what comes
// out, never how fast.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "bench/bench_command.h"
#include "support/colla_process.h"

namespace {

using colla::launch::CollaProcess;
using colla::launch::eventually;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class CollectivesTest : public colla::bench::BenchCommand {
 protected:
  CollectivesTest() : BenchCommand("collectives") {}
};

std::set<std::string> systemsIn(const nlohmann::json& list) {
  std::set<std::string> systems;
  for (const auto& one : list) systems.insert(one["system"].get<std::string>());
  return systems;
}

TEST_F(CollectivesTest, MeasuresEverySystemAtEverySize) {
  const auto list = measure("--bytes 1K,64K --np 2");
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
    EXPECT_FALSE(one["cores"].empty()) << one;
    EXPECT_TRUE(seen.insert(one["system"].dump() + one["bytes"].dump()).second) << one;
  }
  EXPECT_THAT(out_, StartsWith("op "));
  for (const std::string& system : systems) EXPECT_THAT(out_, HasSubstr("  " + system + " "));
}

TEST_F(CollectivesTest, FourRanksDoEveryOperation) {
  const auto list = measure(
      "--np 4 --bytes 1008 --ops "
      "allreduce,broadcast,reduce,reduce_scatter,allgather,alltoall,barrier");
  for (const auto& system : systemsIn(list)) {
    const auto operations =
        std::ranges::count_if(list, [&](const auto& one) { return one["system"] == system; });
    EXPECT_EQ(operations, system == "bare" ? 1 : 7) << system;
  }
  for (const auto& one : list) {
    // Four equal parts of whole floats.
    EXPECT_EQ(one["bytes"], one["op"] == "barrier" ? 0 : 1008) << one;
  }
}

TEST_F(CollectivesTest, BuffersChooseCollasSystems) {
  const auto list = measure("--bytes 4K --buffers private --peers none");
  EXPECT_EQ(systemsIn(list), (std::set<std::string>{"colla-private", "bare"}));
}

TEST_F(CollectivesTest, LoopbackAndVethComparePlainTlsAndUcx) {
  for (const std::string net : {"loop", "veth"}) {
    if (net == "veth" && geteuid() != 0) continue;  // Making network namespaces needs root.
    const auto list = measure("--net " + net + " --bytes 4K,1M --np 3 --peers none");
    std::set<std::string> systems = {"colla-tcp-plain", "colla-tcp", "colla-ucx"};
    // Two ranks on one of the hosts: what two levels give is compared with one.
    if (net == "veth") systems.insert({"colla-bucket", "colla-one-level"});
    EXPECT_EQ(systemsIn(list), systems);
    EXPECT_EQ(list.size(), 2 * systems.size());
  }
}

TEST_F(CollectivesTest, MissingPeerIsAnErrorOnlyIfItWasNamed) {
  EXPECT_EQ(bench("--bytes 1K --peers gloo", "COLLA_TORCH_PYTHON=/nonexistent/python"), 1);
  EXPECT_THAT(out_, IsEmpty());
  EXPECT_THAT(error_, AllOf(HasSubstr("gloo: no Python with torch"), HasSubstr("pip install")));
}

TEST_F(CollectivesTest, UsageErrorsExitWithTwoAndOneLine) {
  for (const char* arguments :
       {"--bytes 4Q", "--bytes 2", "--ops allreduce,add", "--np 1", "--np many", "--peers nccl",
        "--buffers big", "--net wire", "--rounds 0", "--unknown", "extra"}) {
    EXPECT_EQ(bench(arguments), 2) << arguments;
    EXPECT_THAT(out_, IsEmpty());
    EXPECT_THAT(error_, StartsWith("colla bench: "));
    EXPECT_EQ(std::ranges::count(error_, '\n'), 1) << error_;
  }
}

TEST_F(CollectivesTest, HelpNamesEveryOption) {
  EXPECT_EQ(bench("--help"), 0);
  for (const char* option :
       {"--np", "--ops", "--bytes", "--peers", "--buffers", "--net", "--rounds", "--json"}) {
    EXPECT_THAT(out_, HasSubstr(option));
  }
}

TEST_F(CollectivesTest, WhatCannotBeDoneIsRefusedAtOnce) {
  EXPECT_EQ(bench("--json /nonexistent/out.json"), 1);
  EXPECT_THAT(error_, HasSubstr("cannot write /nonexistent/out.json: No such file"));
  EXPECT_EQ(bench("--np 128 --bytes 4G --peers none"), 1);
  EXPECT_THAT(error_, HasSubstr("GB are free: choose smaller --bytes"));
}

// Whether it is interrupted or killed, no process and no file is left.
class CollectivesSignalTest : public CollectivesTest, public ::testing::WithParamInterface<int> {};

TEST_P(CollectivesSignalTest, LeavesNothing) {
  CollaProcess::Options options;
  options.wrapper = "exec env TMPDIR='" + temporary() + "' \"$@\"";
  CollaProcess process({"bench", "collectives", "--peers", "none", "--bytes", "1K", "--rounds",
                        "1000", "--seconds", "60"},  // Hours, if nobody interrupts.
                       options);
  // From its first file on, it handles signals itself, and there is a guardian.
  ASSERT_TRUE(eventually([&] {
    for (const auto& entry : std::filesystem::directory_iterator(temporary())) {
      if (std::filesystem::exists(entry.path() / "socket")) return true;
    }
    return false;
  }));
  ASSERT_EQ(kill(process.pid(), GetParam()), 0);
  EXPECT_EQ(process.wait(), GetParam() == SIGKILL ? -SIGKILL : 128 + GetParam()) << process.err();
  EXPECT_TRUE(eventually([&] { return process.gone(); }));
  EXPECT_TRUE(eventually([&] { return std::filesystem::is_empty(temporary()); }));
}

INSTANTIATE_TEST_SUITE_P(Signals, CollectivesSignalTest, ::testing::Values(SIGINT, SIGKILL),
                         [](const auto& test) { return "Signal" + std::to_string(test.param); });

}  // namespace
