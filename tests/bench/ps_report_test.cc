#include "bench/ps_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace colla::bench {
namespace {

PsMeasurement training(const std::string& system, std::int64_t batch, double stepSeconds,
                       std::size_t server) {
  return {{.system = system,
           .model = "lr",
           .batch = {batch},
           .workers = 2,
           .stepSeconds = stepSeconds,
           .loss = 0.5,
           .pssBytes = 90'500'000,
           .exposedSeconds = {},
           .rounds = 5,
           .steps = 100},
          server};
}

PushMeasurement push(const std::string& system, int workers, double stepSeconds, double rate) {
  return {.system = system,
          .workers = workers,
          .bytes = std::size_t{32} << 20,
          .stepSeconds = stepSeconds,
          .bytesPerSecond = rate,
          .rounds = 3,
          .steps = 10};
}

const std::vector<PsMeasurement> kTrainings = {
    training("mxnet", 100, 3e-3, 120'000'000), training("colla-2", 100, 4e-4, 0),
    training("colla-ps-sync", 100, 5e-4, 61'000'000),
    training("colla-ps-async", 100, 4e-4, 62'000'000), training("mxnet", 500, 4e-3, 120'000'000)};
const std::vector<PushMeasurement> kPushes = {push("memory-1", 1, 1e-2, 10e9),
                                              push("memory", 2, 1e-2, 20e9),
                                              push("colla-push-2", 2, 2e-2, 5e9)};

TEST(PsTableTest, HasALineForEachSystemAndCollasRatios) {
  EXPECT_EQ(psTable(kTrainings, {}),
            "model  batch  system          samples/s     step  colla-ps-s"
            "ync/it  colla-ps-async/it  worker PSS MB  server PSS MB\n"
            "lr       100  mxnet               33333  3.00 ms            "
            " 6.00x              7.50x           90.5          120.0\n"
            "lr       100  colla-2            250000   400 us            "
            " 0.80x              1.00x           90.5\n"
            "lr       100  colla-ps-sync      200000   500 us            "
            "                    1.25x           90.5           61.0\n"
            "lr       100  colla-ps-async     250000   400 us            "
            " 0.80x                              90.5           62.0\n"
            "lr       500  mxnet              125000  4.00 ms            "
            "                                    90.5          120.0\n");
}

// Of all cores' memory, not of one core's.
TEST(PsTableTest, PushesAreComparedWithMemory) {
  EXPECT_EQ(psTable({}, kPushes),
            "system        workers  bytes     step  GB/s  of memory\n"
            "memory-1            1    32M  10.0 ms  10.0\n"
            "memory              2    32M  10.0 ms  20.0\n"
            "colla-push-2        2    32M  20.0 ms  5.00       25 %\n");
}

TEST(PsTableTest, PartsAreApart) {
  EXPECT_EQ(psTable(kTrainings, kPushes), psTable(kTrainings, {}) + "\n" + psTable({}, kPushes));
}

TEST(PsJsonTest, IsAListOfObjectsWithTheDocumentedKeys) {
  const auto list = nlohmann::json::parse(psJson(kTrainings, kPushes));
  ASSERT_EQ(list.size(), 8U);
  EXPECT_EQ(list[0]["part"], "train");
  EXPECT_EQ(list[0]["system"], "mxnet");
  EXPECT_EQ(list[0]["model"], "lr");
  EXPECT_EQ(list[0]["batch"], 100);
  EXPECT_EQ(list[0]["workers"], 2);
  EXPECT_DOUBLE_EQ(list[2]["samples_per_s"], 200'000);
  EXPECT_DOUBLE_EQ(list[2]["step_seconds"], 5e-4);
  EXPECT_EQ(list[2]["worker_pss_bytes"], 90'500'000);
  EXPECT_EQ(list[2]["server_pss_bytes"], 61'000'000);
  EXPECT_FALSE(list[1].contains("server_pss_bytes"));  // Allreduce has no server.
  EXPECT_EQ(list[7]["part"], "push");
  EXPECT_EQ(list[7]["system"], "colla-push-2");
  EXPECT_EQ(list[7]["workers"], 2);
  EXPECT_EQ(list[7]["bytes"], 32 << 20);
  EXPECT_DOUBLE_EQ(list[7]["bytes_per_s"], 5e9);
  EXPECT_DOUBLE_EQ(list[7]["of_memory"], 0.25);
  EXPECT_EQ(psJson({}, {}), "[]\n");
}

}  // namespace
}  // namespace colla::bench
