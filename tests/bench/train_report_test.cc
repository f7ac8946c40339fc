#include "bench/train_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace colla::bench {
namespace {

TrainMeasurement measurement(const std::string& system, std::int64_t batch, double stepSeconds) {
  return {.system = system,
          .model = "mlp",
          .batch = {batch, false},
          .workers = system == "torch" ? 1 : 2,
          .stepSeconds = stepSeconds,
          .loss = 2.25,
          .pssBytes = 90'500'000,
          .exposedSeconds = {},
          .rounds = 5,
          .steps = 100};
}

TEST(TrainTableTest, HasALineForEachSystemAndCollasRatios) {
  std::vector<TrainMeasurement> measurements = {
      measurement("torch", 100, 1e-3),   measurement("ddp", 100, 4e-3),
      measurement("colla-1", 100, 5e-4), measurement("colla-2", 100, 4e-4),
      measurement("ddp", 500, 8e-3),
  };
  measurements[3].exposedSeconds = 12.34e-6;
  EXPECT_EQ(trainTable(measurements),
            "model  batch  system   samples/s     step  colla-1/it  colla-2/it  exposed  PSS MB\n"
            "mlp      100  torch       100000  1.00 ms       2.00x       2.50x             90.5\n"
            "mlp      100  ddp          25000  4.00 ms       8.00x       10.0x             90.5\n"
            "mlp      100  colla-1     200000   500 us                   1.25x             90.5\n"
            "mlp      100  colla-2     250000   400 us       0.80x              12.3 us    90.5\n"
            "mlp      500  ddp          62500  8.00 ms                                     90.5\n");
}

TEST(TrainTableTest, ReadersHaveALineOfTheirOwn) {
  const std::vector<ReaderMeasurement> readers = {{"resnet50v2", 14'000}};
  EXPECT_EQ(trainTable({}, readers),
            "model       batch  system  samples/s  step  colla-1/it  colla-2/it  exposed  PSS MB\n"
            "resnet50v2         reader      14000\n");
  const auto list = nlohmann::json::parse(trainJson({}, readers));
  EXPECT_EQ(list[0]["system"], "reader");
  EXPECT_DOUBLE_EQ(list[0]["samples_per_s"], 14'000);
}

// Two workers have twice the samples: rates are compared, not steps.
TEST(TrainTableTest, SaysWhichBatchesAreThoseOfEachWorker) {
  std::vector<TrainMeasurement> measurements = {measurement("torch", 8, 2),
                                                measurement("colla-2", 8, 2.5)};
  for (TrainMeasurement& m : measurements) m.batch.perWorker = true;
  measurements[1].exposedSeconds = -12.34e-3;
  measurements.push_back(measurement("torch", 8, 1));
  EXPECT_EQ(
      trainTable(measurements),
      "model     batch  system   samples/s    step  colla-1/it  colla-2/it   exposed  PSS MB\n"
      "mlp    8/worker  torch         4.00  2.00 s                   1.60x              90.5\n"
      "mlp    8/worker  colla-2       6.40  2.50 s                          -12.3 ms    90.5\n"
      "mlp           8  torch         8.00  1.00 s                                      90.5\n");
}

TEST(TrainJsonTest, IsAListOfObjectsWithTheDocumentedKeys) {
  auto one = measurement("colla-2", 100, 4e-4);
  one.exposedSeconds = 1e-5;
  const auto list =
      nlohmann::json::parse(trainJson(std::vector{one, measurement("ddp", 100, 4e-3)}));
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["system"], "colla-2");
  EXPECT_EQ(list[0]["model"], "mlp");
  EXPECT_EQ(list[0]["batch"], 100);
  EXPECT_EQ(list[0]["workers"], 2);
  EXPECT_DOUBLE_EQ(list[0]["samples_per_s"], 250'000);
  EXPECT_DOUBLE_EQ(list[0]["step_seconds"], 4e-4);
  EXPECT_EQ(list[0]["pss_bytes"], 90'500'000);
  EXPECT_DOUBLE_EQ(list[0]["exposed_seconds"], 1e-5);
  EXPECT_FALSE(list[1].contains("exposed_seconds"));  // Nobody measured it.
  EXPECT_FALSE(list[0].contains("batch_per_worker"));
  EXPECT_EQ(trainJson({}), "[]\n");

  one.batch = {8, true};
  const auto perWorker = nlohmann::json::parse(trainJson(std::vector{one}));
  EXPECT_EQ(perWorker[0]["batch"], 16);
  EXPECT_EQ(perWorker[0]["batch_per_worker"], 8);
  EXPECT_DOUBLE_EQ(perWorker[0]["samples_per_s"], 40'000);
}

}  // namespace
}  // namespace colla::bench
