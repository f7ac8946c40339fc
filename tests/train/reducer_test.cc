// Gradients on their way through the buckets, with workers as threads, and the loop that a program
// owns itself.
#include "train/exchange/reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "colla/distributed_optimizer.h"

namespace colla::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Runs body(job) for each of `workers` threads, which share `slices`.
void runWorkers(int workers, int slices, const std::function<void(Job&)>& body) {
  auto jobs = valueOrThrow(Job::inThreads(
      workers, {.torchVersion = {}, .settings = {{"slices", std::to_string(slices)}}}));
  std::vector<std::thread> threads;
  for (auto& job : jobs) {
    threads.emplace_back([&job, &body] {
      at::set_num_threads(1);
      body(*job);
      job.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

SliceMap mapOf(const Job& job) { return *SliceMap::even(job.slices(), job.size()); }

torch::Tensor parameter(const std::vector<float>& values) {
  return torch::tensor(values).set_requires_grad(true);
}

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

// One step in which slice s has the loss `loss(s)`.
void runStep(Job& job, Reducer& reducer, const std::function<torch::Tensor(int)>& loss) {
  const SliceRange range = mapOf(job).range(job.rank());
  for (int slice = range.begin; slice < range.end; ++slice) {
    reducer.beginSlice(slice);
    loss(slice).backward();
    reducer.endSlice();
  }
  reducer.finish();
}

TEST(ReducerTest, AParameterUsedTwiceGivesOneGradient) {
  runWorkers(2, 4, [](Job& job) {
    const torch::Tensor w = parameter({1, 2, 3});
    Reducer reducer(Workers::all(job), {{"w", w}}, Reducer::Options());
    runStep(job, reducer, [&](int slice) { return (w * w).sum() * (slice + 1); });
    EXPECT_TRUE(torch::equal(reducer.sum(0), torch::tensor({20.0f, 40.0f, 60.0f})));
    EXPECT_TRUE(torch::equal(w.grad(), reducer.sum(0)));
  });
}

TEST(ReducerTest, AGradientThatOnlySomeSlicesHaveIsEverybodys) {
  runWorkers(3, 3, [](Job& job) {
    const torch::Tensor a = parameter({1});
    const torch::Tensor b = parameter({1});
    const torch::Tensor c = parameter({1});
    Reducer reducer(Workers::all(job), {{"a", a}, {"b", b}, {"c", c}}, Reducer::Options());
    for (int step = 0; step < 3; ++step) {
      runStep(job, reducer, [&](int slice) { return (slice == 2 ? a + 5 * b : 2 * a).sum(); });
      EXPECT_EQ(reducer.sum(0).item<float>(), 5);
      EXPECT_EQ(reducer.sum(1).item<float>(), 5);
      EXPECT_FALSE(reducer.sum(2).defined());
      EXPECT_FALSE(c.grad().defined());
    }
  });
}

TEST(ReducerTest, ZeroGradThatKeepsTensorsDoesNoHarm) {
  runWorkers(2, 4, [](Job& job) {
    const torch::Tensor w = parameter({1, 2});
    const torch::Tensor v = parameter({3});
    Reducer reducer(Workers::all(job), {{"w", w}, {"v", v}}, {.bucketBytes = 1});
    for (int step = 0; step < 3; ++step) {
      runStep(job, reducer, [&](int slice) {
        for (const torch::Tensor& each : {w, v}) {
          if (each.grad().defined()) each.grad().zero_();
        }
        return w.sum() * (slice + step) + v.sum();
      });
      EXPECT_EQ(reducer.sum(0)[1].item<float>(), 6 + 4 * step);
      EXPECT_EQ(reducer.sum(1).item<float>(), 4);
    }
  });
}

// Contract: sums are theirs who see them until the next backward, also those of the first step,
// after which buckets are made anew.
TEST(ReducerTest, GradientsStayUntilTheNextBackward) {
  for (const int workers : {1, 2}) {
    runWorkers(workers, 2, [](Job& job) {
      const torch::Tensor a = parameter({1, 2});
      const torch::Tensor b = parameter({3});
      Reducer reducer(Workers::all(job), {{"a", a}, {"b", b}}, {.bucketBytes = 1});
      for (int step = 0; step < 4; ++step) {
        const torch::Tensor seen = reducer.sum(0);
        runStep(job, reducer, [&](int slice) {
          if (step > 0 && slice == mapOf(job).range(job.rank()).begin) {
            EXPECT_EQ(a.grad()[1].item<float>(), 2 * step - 1) << step;
            EXPECT_EQ(seen[1].item<float>(), 2 * step - 1) << step;
            EXPECT_EQ(b.grad().item<float>(), 3) << step;
            b.grad().zero_();
          }
          return a.sum() * (slice + step) + b.sum() * (slice + 1);
        });
        EXPECT_EQ(reducer.sum(0)[1].item<float>(), 2 * step + 1);
        EXPECT_EQ(reducer.sum(1).item<float>(), 3);
      }
    });
  }
}

// Contract: added as float32 along the tree, rounded once; whatever the number of workers is.
TEST(ReducerTest, SixteenBitGradientsAreRoundedOnce) {
  for (const torch::ScalarType type : {torch::kBFloat16, torch::kFloat16}) {
    torch::manual_seed(1);
    std::vector<torch::Tensor> gradients;
    std::vector<torch::Tensor> wide;
    for (int slice = 0; slice < 6; ++slice) {
      gradients.push_back(torch::randn({1000}).to(type));
      wide.push_back(gradients.back().to(torch::kFloat32));
    }
    const torch::Tensor sum =
        (((wide[0] + wide[1]) + (wide[2] + wide[3])) + (wide[4] + wide[5])).to(type);
    for (const int workers : {1, 2, 3, 6}) {
      runWorkers(workers, 6, [&](Job& job) {
        const torch::Tensor w = torch::zeros({1000}, type).set_requires_grad(true);
        const torch::Tensor v = parameter({1});  // In a bucket of a different type.
        Reducer reducer(Workers::all(job), {{"w", w}, {"v", v}}, {.bucketBytes = 1});
        for (int step = 0; step < 2; ++step) {  // After the first one, buckets are made anew.
          runStep(job, reducer, [&](int slice) {
            return (w * gradients[slice]).sum().to(torch::kFloat32) + v.sum();
          });
          EXPECT_TRUE(torch::equal(reducer.sum(0), sum)) << workers << " workers, step " << step;
          EXPECT_EQ(w.grad().scalar_type(), type);
          EXPECT_EQ(reducer.sum(1).item<float>(), 6);
        }
      });
    }
  }
}

TEST(ReducerTest, SparseGradientsAreSummedAsDenseOnes) {
  runWorkers(2, 2, [](Job& job) {
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(4, 2).sparse(true));
    Reducer reducer(Workers::all(job), {{"table", table->weight}}, Reducer::Options());
    runStep(job, reducer, [&](int slice) { return table(torch::tensor({slice, slice, 3})).sum(); });
    EXPECT_TRUE(torch::equal(reducer.sum(0),
                             torch::tensor({{2.f, 2.f}, {2.f, 2.f}, {0.f, 0.f}, {2.f, 2.f}})));
  });
}

// Rows alone travel, and have the bits that a whole gradient has there, for any number of workers;
// also where a slice or a worker has no rows, and in a vector. So do rows that travel as a whole.
TEST(ReducerTest, RowsHaveTheBitsOfWholeGradients) {
  std::vector<torch::Tensor> numbers;  // Of the rows of the last sums.
  const auto sums = [&](int workers, bool rowSparse, bool asWhole = false) {
    numbers.clear();
    std::vector<torch::Tensor> result;
    runWorkers(workers, 5, [&](Job& job) {
      const torch::Tensor table = torch::zeros({50, 3}).set_requires_grad(true);
      const torch::Tensor vector = torch::zeros({50}).set_requires_grad(true);
      const torch::Tensor other = parameter({1, 2});
      Reducer reducer(Workers::all(job),
                      {{"table", table, Reducer::Kind::kGradient, rowSparse, asWhole},
                       {"other", other},
                       {"vector", vector, Reducer::Kind::kGradient, rowSparse, asWhole}},
                      {.bucketBytes = 1});
      for (int step = 0; step < 3; ++step) {
        runStep(job, reducer, [&](int slice) {
          if (slice == step) return other.sum();  // No row.
          const torch::Tensor i = torch::arange(20, torch::kInt64);
          const torch::Tensor rows = (i * (slice + 3) + i * i * step).remainder(50);
          const torch::Tensor scale = ((i + 1) * (slice + 1)).to(torch::kFloat32).reciprocal();
          return (torch::embedding(table, rows, -1, false, true) * scale.unsqueeze(1)).sum() +
                 (torch::gather(vector, 0, rows, true) * scale).sum() * 0.3 + other.sum();
        });
        if (job.rank() != 0) continue;
        EXPECT_EQ(reducer.sum(0).is_sparse(), rowSparse);
        for (const int entry : {0, 1, 2}) {
          const torch::Tensor& sum = reducer.sum(entry);
          result.push_back(sum.is_sparse() ? sum.to_dense() : sum.clone());
          if (sum.is_sparse()) numbers.push_back(sum._indices().clone());
        }
      }
    });
    return result;
  };
  const auto whole = sums(1, false);
  ASSERT_EQ(whole.size(), 9);
  EXPECT_NE(whole[0].abs().sum().item<float>(), 0);
  for (const int workers : {1, 2, 3, 5}) {
    const auto rows = sums(workers, true);
    const auto rowNumbers = numbers;
    const auto rowsAsWhole = sums(workers, true, true);
    ASSERT_EQ(rows.size(), whole.size());
    ASSERT_EQ(rowsAsWhole.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_TRUE(torch::equal(rows[i], whole[i])) << workers << " workers, " << i;
      EXPECT_TRUE(torch::equal(rowsAsWhole[i], whole[i])) << workers << " workers, " << i;
    }
    ASSERT_EQ(numbers.size(), rowNumbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_TRUE(torch::equal(numbers[i], rowNumbers[i])) << workers << " workers, " << i;
    }
  }
}

TEST(ReducerTest, RowsThatNobodyHasAreNoGradient) {
  for (const bool whole : {false, true}) {
    runWorkers(2, 2, [&](Job& job) {
      const torch::Tensor table = torch::zeros({5, 2}).set_requires_grad(true);
      const torch::Tensor other = parameter({1});
      Reducer reducer(Workers::all(job),
                      {{"table", table, Reducer::Kind::kGradient, true, whole}, {"other", other}},
                      Reducer::Options());
      runStep(job, reducer, [&](int) { return other.sum(); });
      EXPECT_FALSE(reducer.sum(0).defined());
      EXPECT_FALSE(table.grad().defined());
    });
  }
}

TEST(ReducerTest, AWholeGradientWhereRowsWereSaidIsRefusedByName) {
  runWorkers(1, 1, [](Job& job) {
    const torch::Tensor table = torch::ones({5, 2}).set_requires_grad(true);
    Reducer reducer(Workers::all(job), {{"table.weight", table, Reducer::Kind::kGradient, true}},
                    Reducer::Options());
    EXPECT_THAT(refusal([&] { runStep(job, reducer, [&](int) { return table.sum(); }); }),
                AllOf(HasSubstr("\"table.weight\""), HasSubstr("sparse")));
  });
}

// Contract: libtorch gets no tensor that starts within a cache line.
TEST(ReducerTest, GradientsStartOn64ByteBoundaries) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1} << 20}) {
    runWorkers(2, 4, [&](Job& job) {
      std::vector<Reducer::Entry> entries;
      for (const int length : {1, 7, 16, 33, 5}) {
        entries.push_back({std::to_string(length), torch::ones({length}).set_requires_grad(true)});
      }
      entries.push_back({"double", torch::ones({3}, torch::kFloat64).set_requires_grad(true)});
      Reducer reducer(Workers::all(job), entries, {.bucketBytes = bytes});
      for (int step = 0; step < 2; ++step) {
        runStep(job, reducer, [&](int) {
          torch::Tensor loss = torch::zeros({});
          for (const Reducer::Entry& entry : entries) loss = loss + entry.tensor.sum();
          return loss;
        });
        for (const Reducer::Entry& entry : entries) {
          const auto start = reinterpret_cast<std::uintptr_t>(entry.tensor.grad().data_ptr());
          EXPECT_EQ(start % 64, 0) << entry.name << " in step " << step;
        }
      }
    });
  }
}

// A bucket for each tensor, and one for all: the same bits, also after the order was learned.
TEST(ReducerTest, BucketsDoNotChangeBits) {
  const auto sums = [](std::size_t bucketBytes) {
    std::vector<torch::Tensor> result;
    runWorkers(3, 5, [&](Job& job) {
      std::vector<Reducer::Entry> entries;
      for (int i = 0; i < 7; ++i) {
        entries.push_back({std::to_string(i),
                           torch::arange(1 + 300 * i, torch::kFloat32).set_requires_grad(true)});
      }
      Reducer reducer(Workers::all(job), entries, {.bucketBytes = bucketBytes});
      for (int step = 0; step < 4; ++step) {
        runStep(job, reducer, [&](int slice) {
          torch::Tensor loss = torch::zeros({});
          for (int i : {3, 1, 6, 0, 2, 5, 4}) {
            loss = loss + (entries[i].tensor / (slice + 3 + step + i)).sin().sum();
          }
          return loss;
        });
        if (job.rank() != 2) continue;
        for (int i = 0; i < 7; ++i) result.push_back(reducer.sum(i).clone());
      }
    });
    return result;
  };
  const auto together = sums(std::size_t{1} << 30);
  const auto apart = sums(1);
  ASSERT_EQ(together.size(), 28);
  for (std::size_t i = 0; i < together.size(); ++i)
    EXPECT_TRUE(torch::equal(together[i], apart[i])) << i;
}

// Contract: a bucket leaves while backward still runs. The parameters stand in an order that
// backward does not have, so one that is ready first only leaves first once the order was learned.
TEST(ReducerTest, BucketsLeaveWhileBackwardRunsInTheOrderLearned) {
  std::atomic<int> seen = 0;
  runWorkers(2, 2, [&](Job& job) {
    const torch::Tensor late = parameter({1});  // Backward reaches it last.
    const torch::Tensor middle = parameter({2});
    const torch::Tensor early = parameter({3});
    Reducer reducer(Workers::all(job), {{"early", early}, {"middle", middle}, {"late", late}},
                    {.bucketBytes = 1});
    const auto run = [&](const std::function<void()>& beforeLate) {
      runStep(job, reducer, [&](int slice) {
        const torch::Tensor first = late * (slice + 1);
        first.register_hook([&](const torch::Tensor&) { beforeLate(); });
        return ((first * middle) * early).sum();
      });
    };
    run([] {});  // Buckets are made anew at its end.
    run([] {});
    EXPECT_EQ(reducer.sum(0).item<float>(), 6);
    // The memory of the sums, where they stand as soon as a bucket has been reduced.
    const torch::Tensor sums[] = {reducer.sum(0), reducer.sum(1)};
    {
      const torch::NoGradGuard noGrad;
      late.fill_(10);
    }
    run([&] {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      const auto reduced = [&] {
        // 10 x 2 x (1 + 2), and 10 x 3 x (1 + 2): both workers' share.
        return std::atomic_ref(*sums[0].data_ptr<float>()) == 60.0F &&
               std::atomic_ref(*sums[1].data_ptr<float>()) == 90.0F;
      };
      while (!reduced() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      if (reduced()) ++seen;
    });
    EXPECT_EQ(reducer.sum(2).item<float>(), 18);
  });
  EXPECT_EQ(seen, 2);
}

TEST(ReducerTest, AParameterThatChangesShapeIsRefusedByName) {
  runWorkers(1, 1, [](Job& job) {
    torch::Tensor w = parameter({1, 2, 3});
    Reducer reducer(Workers::all(job), {{"layer.weight", w}}, Reducer::Options());
    runStep(job, reducer, [&](int) { return w.sum(); });
    w.set_data(torch::ones({4}));
    EXPECT_THAT(refusal([&] { runStep(job, reducer, [&](int) { return w.sum(); }); }),
                AllOf(HasSubstr("\"layer.weight\" changed from [3]"), HasSubstr("[4]")));
  });
}

TEST(ReducerTest, AGradientOutsideOfAStepIsRefused) {
  runWorkers(1, 1, [](Job& job) {
    const torch::Tensor w = parameter({1});
    const Reducer reducer(Workers::all(job), {{"w", w}}, Reducer::Options());
    EXPECT_THAT(refusal([&] { w.sum().backward(); }), HasSubstr("outside of a step"));
  });
}

struct OneLayer : torch::nn::Module {
  OneLayer() { out = register_module("out", torch::nn::Linear(5, 3)); }
  torch::nn::Linear out{nullptr};
};

// A loop of the program's own gives the same bits for one worker and for three.
TEST(DistributedOptimizerTest, SameBitsForEveryNumberOfWorkers) {
  const auto trained = [](int workers, const Optimizer& optimizer) {
    torch::manual_seed(3);
    const OneLayer start;
    torch::Tensor result;
    runWorkers(workers, 6, [&](Job& job) {
      OneLayer net;
      {
        const torch::NoGradGuard noGrad;
        net.out->weight.copy_(start.out->weight + (job.rank() == 0 ? 0 : 1));
        net.out->bias.copy_(start.out->bias);
      }
      broadcastParameters(job, net);
      DistributedOptimizer distributed(job, net, optimizer, {.clipNorm = 0.5});
      for (int step = 0; step < 5; ++step) {
        for (int slice = distributed.slices().begin; slice < distributed.slices().end; ++slice) {
          const torch::Tensor input =
              torch::sin(torch::arange(20).reshape({4, 5}) * (slice + step + 1));
          net.out(input).square().mean().backward();
        }
        distributed.step();
        distributed.zeroGrad();
      }
      if (job.rank() == job.size() - 1) result = net.out->weight.detach().clone();
    });
    return result;
  };
  const Optimizer own = OptimizerOptions(Adam{.lr = 0.1});
  const Optimizer theirs = TorchOptimizer{
      [](std::vector<torch::Tensor> parameters) -> std::unique_ptr<torch::optim::Optimizer> {
        return std::make_unique<torch::optim::Adagrad>(std::move(parameters));
      },
      "adagrad"};
  for (const Optimizer& optimizer : {own, theirs}) {
    const torch::Tensor one = trained(1, optimizer);
    EXPECT_TRUE(torch::equal(one, trained(2, optimizer)));
    EXPECT_TRUE(torch::equal(one, trained(3, optimizer)));
  }
}

TEST(DistributedOptimizerTest, CountsTheSlices) {
  runWorkers(1, 2, [](Job& job) {
    OneLayer net;
    DistributedOptimizer optimizer(job, net, OptimizerOptions(Sgd{}));
    const auto backward = [&] { net.out(torch::ones({1, 5})).sum().backward(); };
    backward();
    EXPECT_THAT(refusal([&] { optimizer.step(); }), HasSubstr("1 of this worker's 2 slices"));
    backward();
    EXPECT_THAT(refusal(backward), HasSubstr("one slice too many"));
    optimizer.step();
  });
}

TEST(DistributedOptimizerTest, StateOfRankZeroBecomesEverybodys) {
  runWorkers(2, 2, [](Job& job) {
    OneLayer net;
    broadcastParameters(job, net);
    torch::optim::Adam adam(net.parameters(), torch::optim::AdamOptions(0.1));
    if (job.rank() == 0) {
      net.out(torch::ones({1, 5})).sum().backward();
      adam.step();
    }
    broadcastParameters(job, net);
    broadcastOptimizerState(job, adam, net);
    adam.zero_grad();
    net.out(torch::ones({1, 5})).square().sum().backward();
    adam.step();
    torch::Tensor weight = net.out->weight.detach().clone();
    torch::Tensor other = weight.clone();
    ASSERT_TRUE(broadcast(job.world(), std::span(other.data_ptr<float>(), 15), 0).ok());
    EXPECT_TRUE(torch::equal(weight, other));
  });
}

// Rank 0's optimizer begins with a state, as one that a program has read from a file.
TEST(DistributedOptimizerTest, BroadcastsItsOwnState) {
  runWorkers(2, 2, [](Job& job) {
    OneLayer net;
    const TorchOptimizer adam{
        [&](std::vector<torch::Tensor> parameters) -> std::unique_ptr<torch::optim::Optimizer> {
          auto made = std::make_unique<torch::optim::Adam>(parameters, 0.1);
          if (job.rank() != 0) return made;
          for (torch::Tensor& parameter : parameters) {
            parameter.mutable_grad() = torch::ones_like(parameter);
          }
          made->step();
          made->zero_grad();
          return made;
        },
        "adam"};
    DistributedOptimizer distributed(job, net, adam);
    broadcastParameters(job, net);
    distributed.broadcastState();
    net.out(torch::ones({1, 5})).square().sum().backward();
    distributed.step();
    torch::Tensor weight = net.out->weight.detach().clone();
    torch::Tensor other = weight.clone();
    ASSERT_TRUE(broadcast(job.world(), std::span(other.data_ptr<float>(), 15), 0).ok());
    EXPECT_TRUE(torch::equal(weight, other));
  });
}

}  // namespace
}  // namespace colla::train
