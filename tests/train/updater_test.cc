// Parameters that several workers have in common get the bits of an update that one makes alone.
#include "train/exchange/updater.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "colla/error.h"

namespace colla::train {
namespace {

constexpr int kSteps = 4;

// Of lengths that no number of workers divides, one of them in float64, the last a table.
std::vector<Parameter> parameters() {
  torch::manual_seed(7);
  std::vector<Parameter> all = {{"a", torch::randn({37, 11})},
                                {"b", torch::randn({5}, torch::kFloat64)},
                                {"c", torch::randn({1})},
                                {"table", torch::randn({50, 6})}};
  for (const Parameter& parameter : all) parameter.tensor.requires_grad_(true);
  return all;
}

// Those of `step`; a parameter has none in one of the steps.
std::vector<torch::Tensor> gradients(const std::vector<Parameter>& all, int step) {
  torch::manual_seed(100 + step);
  std::vector<torch::Tensor> sums;
  for (const Parameter& parameter : all)
    sums.push_back(torch::randn_like(parameter.tensor.detach()));
  if (step == 2) sums[1] = torch::Tensor();
  const torch::Tensor rows = torch::tensor({2 + step, 9, 30, 31, 49}, torch::kInt64);
  sums[3] = torch::sparse_coo_tensor(rows.unsqueeze(0), sums[3].index_select(0, rows), {50, 6});
  sums[3]._coalesced_(true);
  return sums;
}

std::string bytesOf(const std::vector<Parameter>& all, Updater& updater) {
  std::string bytes;
  for (const Parameter& parameter : all) {
    bytes.append(static_cast<const char*>(parameter.tensor.data_ptr()), parameter.tensor.nbytes());
  }
  for (const auto& view : updater.state()) {
    bytes.append(view.name);
    bytes.append(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size());
  }
  return bytes;
}

class CommonUpdateTest : public testing::TestWithParam<OptimizerOptions> {
 protected:
  // What is there after each step.
  static std::vector<std::string> train(const std::vector<Parameter>& all, Job* job) {
    const std::optional<Workers> workers = job ? std::optional(Workers::all(*job)) : std::nullopt;
    const auto updater = makeUpdater(GetParam(), all, workers ? &*workers : nullptr);
    for (const Parameter& parameter : all) {
      const auto start = reinterpret_cast<std::uintptr_t>(parameter.tensor.data_ptr());
      EXPECT_EQ(start % 64, 0) << parameter.name << " starts within a cache line";
    }
    std::vector<std::string> after;
    const torch::NoGradGuard noGrad;
    for (int step = 0; step < kSteps; ++step) {
      // The generator is the process's, so workers in threads draw in turn.
      static std::mutex mutex;
      std::vector<torch::Tensor> sums;
      {
        const std::lock_guard lock(mutex);
        sums = gradients(all, step);
      }
      updater->apply(sums, 1.0, 0.5);
      after.push_back(bytesOf(all, *updater));
      if (job != nullptr) throwIfError(barrier(job->world()));  // All have looked.
    }
    return after;
  }
};

TEST_P(CommonUpdateTest, HasTheBitsOfOneMadeAlone) {
  const std::vector<std::string> alone = train(parameters(), nullptr);
  ASSERT_NE(alone.front(), alone.back());
  for (const int workers : {2, 3, 5}) {
    auto jobs = valueOrThrow(Job::inThreads(workers));
    std::vector<std::vector<Parameter>> own;
    for (int rank = 0; rank < workers; ++rank) {
      own.push_back(parameters());
      // Worker 0's become everybody's.
      const torch::NoGradGuard noGrad;
      if (rank > 0) own.back()[0].tensor.fill_(rank);
    }
    std::vector<std::thread> threads;
    for (int rank = 0; rank < workers; ++rank) {
      threads.emplace_back([&, rank] {
        EXPECT_EQ(train(own[rank], jobs[rank].get()), alone) << rank << " of " << workers;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, CommonUpdateTest,
                         testing::Values(OptimizerOptions(Sgd{.lr = 0.1}),
                                         OptimizerOptions(Sgd{.lr = 0.1, .momentum = 0.9}),
                                         OptimizerOptions(Adagrad{.lr = 0.1}),
                                         OptimizerOptions(Adam{.lr = 0.1, .amsgrad = true})));

}  // namespace
}  // namespace colla::train
