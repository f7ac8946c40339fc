#include "bench/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace colla::bench {
namespace {

Measurement measurement(const std::string& system, std::size_t bytes, double seconds) {
  return {.system = system,
          .buffers = "private",
          .transport = "shm",
          .operation = bytes == 0 ? Operation::kBarrier : Operation::kAllreduce,
          .np = 2,
          .bytes = bytes,
          .seconds = seconds,
          .rounds = 5,
          .iterations = 100};
}

TEST(MedianTest, IsTheMiddleOfTheSortedValues) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({8, 2, 100, 4}), 6);
}

TEST(TableTest, HasALineForEachSystemAndColumnsForColla) {
  const std::vector<Measurement> measurements = {
      measurement("colla", 4 << 20, 100e-6), measurement("colla-private", 4 << 20, 400e-6),
      measurement("gloo", 4 << 20, 6e-3),    measurement("bare", 4 << 20, 80e-6),
      measurement("gloo", 0, 1e-3),
  };
  EXPECT_EQ(table(measurements),
            "op         bytes  np  system            time  GB/s  colla/it  colla-private/it\n"
            "allreduce     4M   2  colla           100 us  41.9                       0.25x\n"
            "allreduce     4M   2  colla-private   400 us  10.5     4.00x\n"
            "allreduce     4M   2  gloo           6.00 ms  0.70     60.0x             15.0x\n"
            "allreduce     4M   2  bare           80.0 us  52.4     0.80x             0.20x\n"
            "barrier        -   2  gloo           1.00 ms     -\n");
}

TEST(JsonTest, IsAListOfObjectsWithTheDocumentedKeys) {
  const auto list = nlohmann::json::parse(json(std::vector{measurement("gloo", 4 << 20, 2e-3)}));
  ASSERT_EQ(list.size(), 1U);
  const auto& one = list[0];
  EXPECT_EQ(one["system"], "gloo");
  EXPECT_EQ(one["op"], "allreduce");
  EXPECT_EQ(one["np"], 2);
  EXPECT_EQ(one["bytes"], 4 << 20);
  EXPECT_DOUBLE_EQ(one["seconds"], 2e-3);
  EXPECT_DOUBLE_EQ(one["gb_per_s"], (4 << 20) / 2e-3 / 1e9);
  EXPECT_EQ(json({}), "[]\n");
}

}  // namespace
}  // namespace colla::bench
