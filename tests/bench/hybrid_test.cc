// `colla bench hybrid` as users call it, with small tables. Checks what comes out, never how fast.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "bench/bench_command.h"
#include "support/colla_process.h"

namespace {

using colla::launch::CollaProcess;
using colla::launch::eventually;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HybridTest : public colla::bench::BenchCommand {
 protected:
  HybridTest() : BenchCommand("hybrid") {}
};

// Where hosts can be made, and a model trained on them.
std::string missing() {
#ifndef COLLA_WITH_TORCH
  return "this build has no libtorch";
#else
  if (geteuid() != 0) return "network namespaces need root";
  const bool tools = std::system("{ command -v ip && command -v tc; } >/dev/null 2>&1") == 0;
  return tools ? "" : "iproute2 is not installed";
#endif
}

// Every system, with equal bits (others would be a failure), and what passed the links.
TEST_F(HybridTest, TrainsTheSameEverywhereAndCountsBytes) {
  if (!missing().empty()) GTEST_SKIP() << missing();
  ASSERT_EQ(bench("--vocabulary 5000 --width 16 --units 16 --candidates 32 --length 5 --batch 6 "
                  "--steps 5 --checked 4 --rounds 1 --json out.json"),
            0)
      << error_;
  std::map<std::string, nlohmann::json> systems;
  for (const auto& one : json()) {
    systems[one["system"]] = one;
  }
  ASSERT_EQ(systems.size(), 6U) << out_;
  for (const auto& [name, one] : systems) {
    EXPECT_THAT(out_, HasSubstr(name + " "));
    EXPECT_GT(one["step_seconds"], 0.0) << one;
    EXPECT_EQ(one["workers"], 3);
    EXPECT_EQ(one["steps"], 5);
    ASSERT_TRUE(one.contains("worker_sent_bytes")) << one;
  }
  for (const char* name : {"hybrid", "ps-sync"}) {
    EXPECT_TRUE(systems[name].contains("server_sent_bytes")) << name;
    EXPECT_FALSE(systems[name + std::string("-shared")].contains("server_sent_bytes")) << name;
  }
  // Two tables of 5,000 x 16 floats (640 kB), each worker sends 2/3 of them twice; rows are fewer.
  EXPECT_GT(systems["allreduce-dense"]["worker_sent_bytes"], 600'000.0);
  EXPECT_LT(systems["allreduce-rows"]["worker_sent_bytes"], 300'000.0);
  EXPECT_LT(systems["hybrid"]["worker_sent_bytes"], 300'000.0);
}

// Nothing is left: no process (and with the last one go the hosts), no file.
class HybridSignalTest : public HybridTest, public ::testing::WithParamInterface<int> {};

TEST_P(HybridSignalTest, LeavesNothing) {
  if (!missing().empty()) GTEST_SKIP() << missing();
  CollaProcess::Options options;
  options.wrapper = "exec env TMPDIR='" + temporary() + "' \"$@\"";
  CollaProcess process({"bench", "hybrid", "--vocabulary", "1000", "--width", "8", "--units", "8",
                        "--candidates", "16", "--checked", "100000", "--systems", "hybrid"},
                       options);
  // Three workers and a server under way.
  ASSERT_TRUE(eventually([&] {
    const auto all = process.processes();
    return std::ranges::count(all, "colla-train", &colla::launch::MarkedProcess::name) == 4;
  })) << process.err();
  ASSERT_EQ(kill(process.pid(), GetParam()), 0);
  EXPECT_EQ(process.wait(), GetParam() == SIGKILL ? -SIGKILL : 128 + GetParam()) << process.err();
  EXPECT_TRUE(eventually([&] { return process.gone(); }));
  EXPECT_TRUE(eventually([&] { return std::filesystem::is_empty(temporary()); }));
}

INSTANTIATE_TEST_SUITE_P(Signals, HybridSignalTest, ::testing::Values(SIGINT, SIGTERM, SIGKILL),
                         [](const auto& test) { return "Signal" + std::to_string(test.param); });

TEST_F(HybridTest, WithoutRootItSaysSo) {
#ifndef COLLA_WITH_TORCH
  GTEST_SKIP() << "this build has no libtorch";
#endif
  std::string somebody;
  if (geteuid() == 0) {
    somebody = "setpriv --reuid=65534 --clear-groups";
    std::filesystem::permissions(temporary(), std::filesystem::perms::all);
    if (std::system(
            (somebody + " test -x '" COLLA_BINARY "' -a -w '" + temporary() + "'").c_str()) != 0) {
      GTEST_SKIP() << "nobody but root gets at the program";
    }
  }
  EXPECT_EQ(bench("--rounds 1", somebody), 1);
  EXPECT_THAT(out_, IsEmpty());
  EXPECT_THAT(error_, HasSubstr("needs root"));
}

TEST_F(HybridTest, WithoutToolsItSaysWhatToInstall) {
#ifdef COLLA_WITH_TORCH
  if (geteuid() != 0) GTEST_SKIP() << "without root that is what is told";
  EXPECT_EQ(bench("--rounds 1", "PATH=/nonexistent"), 1);
  EXPECT_THAT(error_, HasSubstr("install iproute2"));
#else
  EXPECT_EQ(bench("--rounds 1"), 1);
  EXPECT_THAT(error_, HasSubstr("built without libtorch"));
#endif
  EXPECT_THAT(out_, IsEmpty());
}

TEST_F(HybridTest, WrongCommandLinesAreUsageErrors) {
  EXPECT_EQ(bench("--batch 50"), 2);
  EXPECT_THAT(error_, HasSubstr("--batch 50 must be a multiple of the 3 workers"));
  EXPECT_EQ(bench("--steps 0"), 2);
  EXPECT_EQ(bench("--systems horovod"), 2);
  EXPECT_EQ(bench("--transport shm"), 2);
  EXPECT_EQ(bench("--gigabits 0"), 2);
  EXPECT_EQ(bench("--workers 1"), 2);
  EXPECT_THAT(out_, IsEmpty());
}

}  // namespace
