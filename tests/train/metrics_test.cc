#include "train/metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace colla::train {
namespace {

using namespace std::chrono_literals;

// What the process's registry has now of `name`, by label ("" without).
std::map<std::string, double> read(std::string_view name) {
  std::map<std::string, double> values;
  for (const metrics::Sample& sample : metrics::Registry::ofProcess().read()) {
    if (sample.family->name == name) {
      values[sample.labels.empty() ? "" : sample.labels[0]] = sample.value();
    }
  }
  return values;
}

TEST(TrainMetricsTest, AnExchangeIsCutWhereBackwardEnds) {
  TrainMetrics metrics;
  const TimePoint zero = TimePoint{} + 1h;
  auto seconds = read("colla_exchange_seconds_total");
  auto bytes = read("colla_exchange_bytes_total");
  const auto expect = [&](double hiddenSeconds, double exposedSeconds, double hiddenBytes,
                          double exposedBytes) {
    seconds["hidden"] += hiddenSeconds;
    seconds["exposed"] += exposedSeconds;
    bytes["hidden"] += hiddenBytes;
    bytes["exposed"] += exposedBytes;
    for (const char* phase : {"hidden", "exposed"}) {
      EXPECT_NEAR(read("colla_exchange_seconds_total")[phase], seconds[phase], 1e-9) << phase;
      EXPECT_EQ(read("colla_exchange_bytes_total")[phase], bytes[phase]) << phase;
    }
  };
  metrics.exchanged(100, zero, zero + 2s);  // Backward still runs.
  expect(2, 0, 100, 0);
  metrics.backwardEnded(zero + 3s);
  metrics.exchanged(100, zero + 2s, zero + 6s);
  expect(1, 3, 25, 75);
  metrics.exchanged(100, zero + 7s, zero + 8s);
  expect(0, 1, 0, 100);
  metrics.exchanged(10, zero + 1s, zero + 1s);  // In no time at all, before the end,
  expect(0, 0, 10, 0);
  metrics.exchanged(10, zero + 9s, zero + 9s);  // and after it.
  expect(0, 0, 0, 10);
  metrics.stepEnded(64, 9s);
  metrics.exchanged(100, zero + 10s, zero + 11s);  // Of the next step.
  expect(1, 0, 100, 0);
}

TEST(TrainMetricsTest, CountsStepsAndSamples) {
  const double steps = read("colla_steps_total")[""];
  const double samples = read("colla_samples_total")[""];
  TrainMetrics metrics;
  metrics.stepEnded(64, 1ms);
  metrics.stepEnded(32, 1ms);
  EXPECT_EQ(read("colla_steps_total")[""], steps + 2);
  EXPECT_EQ(read("colla_samples_total")[""], samples + 96);
}

}  // namespace
}  // namespace colla::train
