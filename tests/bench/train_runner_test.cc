// The coordinator's side of `colla bench train`, with workers that only say what they are told to.
#include "bench/train_runner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace colla::bench {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A worker of which every step takes so long.
class Fake : public Trainee {
 public:
  Fake(double loss, double seconds) : loss_(loss), seconds_(seconds) {}
  Status prepare(const TrainPoint& point) override {
    if (point.path != "/a path/with spaces") return {StatusCode::kInternal, point.path};
    point_ = point;
    if (point.model == "broken") throw std::runtime_error("no such kernel\nstack trace");
    return {};
  }
  Result<double> verify(long /*steps*/) override { return loss_; }
  Result<double> measure(long steps) override { return static_cast<double>(steps) * seconds_; }

 protected:
  TrainPoint point_;

 private:
  double loss_;
  double seconds_;
};

// Has much memory while it measures, and none of it afterwards.
class Hungry : public Fake {
 public:
  static constexpr std::size_t kBytes = 200'000'000;
  using Fake::Fake;
  Result<double> measure(long steps) override {
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) return {StatusCode::kNoMemory, "no memory"};
    const auto end = std::chrono::steady_clock::now() + 200ms;
    do {
      std::memset(memory, 1, kBytes);
    } while (std::chrono::steady_clock::now() < end);
    munmap(memory, kBytes);
    return Fake::measure(steps);
  }
};

class TrainRunnerTest : public ::testing::Test {
 protected:
  TrainRunnerTest() : coordinator_(*Coordinator::create()) {
    options_.rounds = 3;
    options_.seconds = 0.01;
  }

  // Workers, each with its loss and the seconds of its steps.
  template <typename Worker = Fake>
  void start(const TrainSystem& system, const std::vector<Worker>& workers) {
    SystemSpec spec{system.name, system.workers, {}};
    for (int rank = 0; rank < system.workers; ++rank) {
      const AgentPlace place{coordinator_->socketPath(), system.name, rank, system.workers};
      ProcessSpec process;
      process.name = fmt::format("{} rank {}", system.name, rank);
      process.body = [place, fake = workers[rank]]() mutable {
        return serveTrainAgent(place, fake).ok() ? 0 : 1;
      };
      spec.processes.push_back(std::move(process));
    }
    const Status status = coordinator_->start(spec, Deadline::after(10s));
    ASSERT_TRUE(status.ok()) << status;
    systems_.push_back(system);
  }

  auto measure(const std::string& model = "mlp") {
    TrainPoint point;
    point.model = model;
    point.samples = 1000;
    point.rate = 0.1;
    point.path = "/a path/with spaces";
    return measureTraining(*coordinator_, systems_, point, batch_, options_);
  }

  std::unique_ptr<Coordinator> coordinator_;
  std::vector<TrainSystem> systems_;
  BatchSize batch_{100, false};
  TrainRunnerOptions options_;
};

TEST_F(TrainRunnerTest, ReportsTheSlowestWorkerAndWhatTheExchangeCosts) {
  start({"ddp", 2, false}, {{2.0, 3e-3}, {2.0, 4e-3}});
  start({"colla-2", 2, false}, {{2.0, 1e-3}, {2.0, 1e-3}});
  start({"colla-2x1", 2, true}, {{2.0, 6e-4}, {2.0, 12e-4}});
  const auto measured = measure();
  ASSERT_TRUE(measured.ok()) << measured.status();
  ASSERT_EQ(measured->size(), 3U);
  const auto& [ddp, on, alone] = std::tie((*measured)[0], (*measured)[1], (*measured)[2]);
  EXPECT_NEAR(ddp.stepSeconds, 4e-3, 1e-9);
  EXPECT_NEAR(on.stepSeconds, 1e-3, 1e-9);
  ASSERT_TRUE(on.exposedSeconds.has_value());
  EXPECT_NEAR(*on.exposedSeconds, 2e-4, 1e-9);
  EXPECT_FALSE(ddp.exposedSeconds || alone.exposedSeconds);
  // 50 samples in 0.6 ms and 50 in 1.2: 125'000 in a second, 100 in 0.8 ms.
  EXPECT_NEAR(alone.samplesPerSecond(), 125'000, 1);
  for (const TrainMeasurement& m : *measured) {
    EXPECT_EQ(m.rounds, 3) << m.system;
    EXPECT_EQ(m.workers, 2) << m.system;
    EXPECT_EQ(m.loss, 2.0) << m.system;
    EXPECT_GT(m.pssBytes, 10'000U) << m.system;
    EXPECT_LT(m.pssBytes, std::size_t{1} << 40) << m.system;
    EXPECT_NEAR(double(m.steps) * m.stepSeconds, 0.01, 0.008) << m.system;
  }
}

TEST_F(TrainRunnerTest, MemoryIsTheMostThereIsAtOnce) {
  start<Hungry>({"torch", 1, false}, {{2.0, 1e-3}});
  const auto measured = measure();
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_GE(measured->front().pssBytes, Hungry::kBytes);
}

TEST_F(TrainRunnerTest, LossIsTheMeanOverWorkers) {
  start({"torch", 1, false}, {{2.0, 1e-3}});
  start({"ddp", 2, false}, {{1.5, 1e-3}, {2.5, 1e-3}});
  const auto measured = measure();
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ((*measured)[1].loss, 2.0);
}

TEST_F(TrainRunnerTest, OtherLossIsAnError) {
  start({"torch", 1, false}, {{2.0, 1e-3}});
  start({"colla-1", 1, false}, {{2.003, 1e-3}});
  const auto measured = measure();
  ASSERT_FALSE(measured.ok());
  EXPECT_THAT(std::string(measured.status().message()),
              AllOf(HasSubstr("mlp batch 100"),
                    HasSubstr("the loss of colla-1 is 2.003, but that of torch is 2")));
}

// Where statistics are those of a worker's own share, other shares have other losses.
TEST_F(TrainRunnerTest, BatchStatisticsCompareThoseWithEqualShares) {
  start({"torch", 1, false}, {{2.0, 1e-3}});
  start({"ddp", 2, false}, {{1.8, 1e-3}, {1.8, 1e-3}});
  start({"colla-2x1", 2, true}, {{2.0, 1e-3}, {2.0, 1e-3}});
  EXPECT_FALSE(measure().ok());
  options_.batchStatistics = true;
  EXPECT_TRUE(measure().ok());
  start({"colla-2", 2, false}, {{2.0, 1e-3}, {2.0, 1e-3}});
  const auto measured = measure();
  ASSERT_FALSE(measured.ok());
  EXPECT_THAT(std::string(measured.status().message()),
              HasSubstr("the loss of colla-2 is 2, but that of ddp is 1.8"));
}

// A worker whose loss is told by what it was asked to train.
struct Telling : Fake {
  Telling() : Fake(0, 1e-3) {}
  Result<double> verify(long /*steps*/) override {
    return static_cast<double>(point_.batch) + static_cast<double>(point_.share) / 1000;
  }
};

TEST_F(TrainRunnerTest, SystemsGetTheirPartsOfTheBatch) {
  start<Telling>({"colla-1", 1, false}, {{}});
  start<Telling>({"colla-2", 2, false}, {{}, {}});
  start<Telling>({"colla-2x1", 2, true}, {{}, {}});
  const auto losses = [&] {
    std::vector<double> all;
    const auto measured = measure();
    if (!measured.ok()) ADD_FAILURE() << measured.status();
    if (measured.ok()) {
      for (const TrainMeasurement& m : *measured) all.push_back(m.loss);
    }
    return all;
  };
  // The whole batch to verify, half of it for each of two workers to measure.
  EXPECT_THAT(losses(), ElementsAre(100.1, 100.05, 100.05));
  // With a batch per worker, those that train together have twice as much, and their losses are
  // their own.
  batch_ = {100, true};
  EXPECT_THAT(losses(), ElementsAre(100.1, 200.1, 100.1));
}

TEST_F(TrainRunnerTest, RatesOfBatchesPerWorkerAreThoseOfAllWorkers) {
  start({"colla-1", 1, false}, {{2.0, 1e-3}});
  start({"colla-2", 2, false}, {{2.1, 1e-3}, {2.1, 1e-3}});
  start({"colla-2x1", 2, true}, {{2.0, 1e-3}, {2.0, 1e-3}});
  batch_ = {8, true};
  const auto measured = measure();
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_NEAR((*measured)[0].samplesPerSecond(), 8'000, 1);
  EXPECT_NEAR((*measured)[1].samplesPerSecond(), 16'000, 1);
  EXPECT_NEAR((*measured)[2].samplesPerSecond(), 16'000, 1);
}

TEST_F(TrainRunnerTest, LossThatIsNoNumberIsAnError) {
  start({"colla-1", 1, false}, {{std::nan(""), 1e-3}});
  EXPECT_FALSE(measure().ok());
}

TEST_F(TrainRunnerTest, WhatAWorkerThrowsIsToldInOneLine) {
  start({"colla-1", 1, false}, {{2.0, 1e-3}});
  const auto measured = measure("broken");
  ASSERT_FALSE(measured.ok());
  const std::string message(measured.status().message());
  EXPECT_THAT(message, AllOf(HasSubstr("colla-1 rank 0"), HasSubstr("no such kernel")));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

}  // namespace
}  // namespace colla::bench
