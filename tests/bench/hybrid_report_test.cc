#include "bench/hybrid_report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/hybrid.h"

namespace colla::bench {
namespace {

HybridMeasurement measured(const std::string& system, double stepSeconds,
                           const std::vector<LinkLoad>& loads) {
  HybridMeasurement m{.system = system,
                      .workers = 2,
                      .batch = 48,
                      .stepSeconds = stepSeconds,
                      .worker = {},
                      .server = {},
                      .linkBytesPerSecond = 125e6,
                      .rounds = 3,
                      .steps = 17};
  if (!loads.empty()) setLoads(m, loads);
  return m;
}

const std::vector<HybridMeasurement> kAll = {
    measured("hybrid", 0.1, {{2e6, 1e6}, {1e6, 3e6}, {4e6, 5e6}}),
    measured("ps-sync", 0.2, {{2e6, 1e6}, {1e6, 3e6}, {20e6, 5e6}}),
    measured("allreduce-dense", 2.0, {{200e6, 1e6}, {1e6, 3e6}}),
    measured("hybrid-shared", 0.25, {})};

// The largest numbers of workers, the server by itself, and the busiest direction of all links.
TEST(HybridTableTest, HasRatiosAndLinks) {
  EXPECT_EQ(hybridTable(kAll),
            "system           samples/s    step  hybrid/it  hybrid-shared/it  worker MB out    in  "
            "server MB out    in  busiest link\n"
            "hybrid                 480  100 ms                        0.40x           2.00  3.00  "
            "         4.00  5.00          40 %\n"
            "ps-sync                240  200 ms      2.00x             0.80x           2.00  3.00  "
            "         20.0  5.00          80 %\n"
            "allreduce-dense       24.0  2.00 s      20.0x             8.00x            200  3.00  "
            "                             80 %\n"
            "hybrid-shared          192  250 ms      2.50x\n");
}

TEST(HybridJsonTest, HasWhatIsKnown) {
  const auto list = nlohmann::json::parse(hybridJson(kAll));
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[0]["system"], "hybrid");
  EXPECT_EQ(list[0]["server_received_bytes"], 5e6);
  EXPECT_EQ(list[2]["worker_sent_bytes"], 200e6);
  EXPECT_FALSE(list[2].contains("server_sent_bytes"));
  EXPECT_FALSE(list[3].contains("busiest_link"));
  EXPECT_DOUBLE_EQ(list[1]["samples_per_s"], 240);
}

TEST(LinkBytesTest, AreReadFromTheKernelsTable) {
  const std::string text =
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
      "    lo:     100       1    0    0    0     0          0         0      200       1    0\n"
      "  eth0:    3000       7    0    0    0     0          0         0 40000000      9    0\n";
  const auto bytes = parseLinkBytes(text, "eth0");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->received, 3000U);
  EXPECT_EQ(bytes->sent, 40'000'000U);
  EXPECT_FALSE(parseLinkBytes(text, "eth").ok());
  EXPECT_FALSE(parseLinkBytes("", "eth0").ok());
}

TEST(HybridJobTest, FindsTheLastStepThatWasTold) {
  EXPECT_EQ(lastStepIn(""), 0);
  EXPECT_EQ(lastStepIn("Step 3/20 - 0s - loss: 9.2\nStep 14/20 - 1s - loss: 9.1\n"), 14);
  EXPECT_EQ(lastStepIn("Step 3/20 - 0s\nStep 1"), 3);  // The rest of that line is still to come.
  EXPECT_EQ(lastStepIn("saved Step 4/20\n"), 0);
}

TEST(HybridJobTest, ReadsStepsAndNotTheTotal) {
  const std::string path = ::testing::TempDir() + "hybrid_steps_" + std::to_string(getpid());
  std::ofstream(path) << R"({"step":1,"seconds":0.5})"
                         "\n"
                         R"({"step":2,"seconds":0.25})"
                         "\n"
                         R"({"total":true,"steps":2,"seconds":0.75})"
                         "\n";
  const auto seconds = readStepSeconds(path);
  ASSERT_TRUE(seconds.ok()) << seconds.status();
  EXPECT_EQ(*seconds, (std::vector<double>{0.5, 0.25}));
  std::ofstream(path) << "{\"step\":1,";
  EXPECT_FALSE(readStepSeconds(path).ok());
  std::filesystem::remove(path);
  EXPECT_FALSE(readStepSeconds(path).ok());
}

TEST(HybridOptionsTest, BatchesAreSharedEvenly) {
  HybridBenchOptions options;
  EXPECT_TRUE(check(options).ok());
  options.model.batch = 50;
  EXPECT_FALSE(check(options).ok());
}

}  // namespace
}  // namespace colla::bench
