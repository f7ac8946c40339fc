// Each slice draws from a stream of its own, whichever thread it runs on.
#include "train/slice_random.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

namespace colla::train {
namespace {

torch::Tensor drawn(std::uint64_t seed) {
  const SliceRandom random(seed);
  torch::nn::Dropout dropout(0.5);
  const torch::Tensor x = torch::ones({50}).set_requires_grad(true);
  const torch::Tensor y = dropout(x) + torch::rand({50}) + torch::empty({50}).normal_();
  y.sum().backward();
  return torch::cat({y.detach(), x.grad(), torch::randperm(50).to(torch::kFloat32)});
}

TEST(SliceRandomTest, SameSeedSameNumbers) {
  const torch::Tensor first = drawn(1);
  EXPECT_TRUE(torch::equal(first, drawn(1)));
  EXPECT_FALSE(torch::equal(first, drawn(2)));
}

TEST(SliceRandomTest, ThreadsDoNotDisturbEachOther) {
  const torch::Tensor alone = drawn(7);
  std::vector<torch::Tensor> results(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&results, i] {
      for (int round = 0; round < 50; ++round) results[i] = drawn(i % 2 == 0 ? 7 : 8);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(torch::equal(results[0], alone));
  EXPECT_TRUE(torch::equal(results[2], alone));
  EXPECT_FALSE(torch::equal(results[1], alone));
}

TEST(SliceRandomTest, TheProcessGeneratorIsLeftAlone) {
  torch::manual_seed(5);
  const torch::Tensor expected = torch::rand({3});
  torch::manual_seed(5);
  static_cast<void>(drawn(1));
  EXPECT_TRUE(torch::equal(torch::rand({3}), expected));
}

TEST(SliceRandomTest, AGeneratorOfTheCallersOwnIsUsed) {
  const auto draw = [] { return torch::rand({3}, at::make_generator<at::CPUGeneratorImpl>(9)); };
  const torch::Tensor expected = draw();
  const SliceRandom random(1);
  EXPECT_TRUE(torch::equal(draw(), expected));
}

}  // namespace
}  // namespace colla::train
