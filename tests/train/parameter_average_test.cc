// What of a model travels when workers average it, with workers as threads.
#include "train/exchange/parameter_average.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "train/metrics.h"

namespace colla::train {
namespace {

double exchangedBytes() {
  double bytes = 0;
  for (const metrics::Sample& sample : metrics::Registry::ofProcess().read()) {
    if (sample.family->name == "colla_exchange_bytes_total") bytes += sample.value();
  }
  return bytes;
}

// Two workers change these rows of a table of 1000 x 5 by 1 and 2, each its own; bytes that both of
// them gave away in one average.
double averaged(const std::vector<std::vector<std::int64_t>>& rowsOf) {
  const double before = exchangedBytes();
  auto jobs = valueOrThrow(Job::inThreads(2, {.torchVersion = {}, .settings = {{"slices", "2"}}}));
  std::vector<std::thread> threads;
  for (auto& job : jobs) {
    threads.emplace_back([&] {
      at::set_num_threads(1);
      const int rank = job->rank();
      torch::Tensor table = torch::zeros({1000, 5});
      TrainMetrics metrics;
      {
        const std::vector<std::string> tables = {"table"};
        ParameterAverage average(Workers::all(*job), {{"table", table}}, tables, {},
                                 LocalSgdOptions(), &metrics);
        torch::Tensor wanted = torch::zeros({1000, 5});
        for (int worker = 0; worker < 2; ++worker) {
          for (const std::int64_t row : rowsOf[worker]) {
            wanted[row] += 0.5 * (worker + 1);
            if (worker == rank) table[row] += worker + 1;
          }
        }
        if (!rowsOf[rank].empty()) average.touch(0, torch::tensor(rowsOf[rank]));
        average.average(0.5, ps::Stop::kNo);
        EXPECT_TRUE(torch::equal(table, wanted)) << rank;
      }
      job.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return exchangedBytes() - before;
}

// A row is its number and five floats.
TEST(ParameterAverageTest, OfATableOnlyTheTouchedRowsTravel) {
  constexpr double kRow = 8 + 5 * 4;
  const double nothing = averaged({{}, {}});
  EXPECT_EQ(averaged({{3}, {}}) - nothing, kRow);
  EXPECT_EQ(averaged({{3, 7, 999}, {7, 500}}) - nothing, 5 * kRow);
}

// The next average is of what workers change after begin().
TEST(ParameterAverageTest, BeginsWhereParametersAreThen) {
  auto jobs = valueOrThrow(Job::inThreads(2, {.torchVersion = {}, .settings = {{"slices", "2"}}}));
  std::vector<std::thread> threads;
  for (auto& job : jobs) {
    threads.emplace_back([&] {
      at::set_num_threads(1);
      torch::Tensor parameter = torch::full({3}, job->rank() == 0 ? 4.0f : 9.0f);
      {
        ParameterAverage average(Workers::all(*job), {{"parameter", parameter}}, {}, {},
                                 {.outerRate = 0.5});
        parameter.fill_(10);
        average.begin();
        parameter += job->rank() == 0 ? 2 : 4;
        average.average(0.5, ps::Stop::kNo);
        EXPECT_TRUE(torch::equal(parameter, torch::full({3}, 11.5f))) << parameter;
      }
      job.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace colla::train
