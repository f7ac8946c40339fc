// A Trainer inside of a program that has read its options itself.
#include "colla/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/cpu.h"
#include "support/scratch.h"

namespace colla {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;

struct Net : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return out(x.flatten(1)); }
  torch::nn::Linear out = register_module("out", torch::nn::Linear(784, 10));
};

struct Counter : Hook {
  void beforeStep(std::int64_t step, Model&) override { before.push_back(step); }
  void afterStep(const Progress& progress, Model& model) override {
    after.push_back(progress.step);
    losses.push_back(progress.loss);
    parameters = static_cast<int>(model.module().parameters().size());
  }
  void afterSave(std::int64_t step, const std::string& path) override {
    saved.push_back(step);
    EXPECT_THAT(path, EndsWith(std::to_string(step)));
  }
  void atEnd(const Progress& progress, Model&) override { end = progress.step; }

  std::vector<std::int64_t> before, after, saved;
  std::vector<double> losses;
  int parameters = 0;
  std::int64_t end = -1;
};

Task taskWith(const std::shared_ptr<Counter>& hook) {
  Task task;
  task.name = "net";
  task.model = [] { return classifier(std::make_shared<Net>()); };
  task.optimizer = OptimizerOptions(Sgd{.lr = 0.1});
  task.data = [](Part part) { return openDataset("synthetic:mnist:300", part); };
  task.hooks = {hook};
  return task;
}

// Hooks see every step and every checkpoint, once, whatever the number of replicas.
TEST(TrainerTest, HooksAreCalledOnWorkerZero) {
  std::vector<double> losses;
  for (const int workers : {1, 2}) {
    const Scratch scratch;
    const auto hook = std::make_shared<Counter>();
    TrainOptions options;
    options.strategy = workers == 1 ? Strategy::kSingle : Strategy::kMirrored;
    options.workers = workers;
    options.slices = 2;
    options.threads = 1;
    options.steps = 3;
    options.saveEvery = 2;
    options.directory = scratch.at("run");
    options.quiet = true;
    const auto summary = Trainer(taskWith(hook)).run(options);
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_EQ(summary->steps, 3);
    EXPECT_EQ(summary->samples, 300);
    EXPECT_TRUE(summary->test.has_value());
    EXPECT_FALSE(summary->interrupted);
    EXPECT_THAT(hook->before, ElementsAre(0, 1, 2));
    EXPECT_THAT(hook->after, ElementsAre(1, 2, 3));
    EXPECT_THAT(hook->saved, ElementsAre(0, 2, 3));
    EXPECT_EQ(hook->parameters, 2);
    EXPECT_EQ(hook->end, 3);
    if (workers == 1) losses = hook->losses;
    EXPECT_EQ(hook->losses, losses);  // Every bit of the metrics, too.
  }
}

// On the thread that saves, where nobody else would catch it.
TEST(TrainerTest, WhatAHookThrowsAfterASaveEndsTheRun) {
  struct Thrower : Counter {
    void afterSave(std::int64_t step, const std::string&) override {
      if (step == 2) throw std::runtime_error("no room in my cupboard");
    }
  };
  const Scratch scratch;
  TrainOptions options;
  options.steps = 3;
  options.saveEvery = 2;
  options.evaluate = false;
  options.directory = scratch.at("run");
  options.quiet = true;
  const auto summary = Trainer(taskWith(std::make_shared<Thrower>())).run(options);
  EXPECT_FALSE(summary.ok());
  EXPECT_EQ(summary.status().message(), "after the save of step 2: no room in my cupboard");
}

// A checkpoint is evaluated as it was trained.
TEST(TrainerTest, BFloat16IsTheCheckpoints) {
  if (job::cpuFeatures().find("bf16") == std::string::npos) GTEST_SKIP() << "not this CPU";
  const Scratch scratch;
  TrainOptions options;
  options.slices = 2;
  options.threads = 1;
  options.steps = 3;
  options.quiet = true;
  double losses[2];
  for (const bool bfloat16 : {false, true}) {
    options.bfloat16 = bfloat16;
    options.directory = scratch.at(bfloat16 ? "bfloat16" : "float32");
    const auto summary = Trainer(taskWith(std::make_shared<Counter>())).run(options);
    ASSERT_TRUE(summary.ok()) << summary.status();
    losses[bfloat16 ? 1 : 0] = summary->test->loss;
    TrainOptions evaluation;
    evaluation.directory = options.directory;
    for (const int workers : {1, 2}) {
      evaluation.workers = workers;
      evaluation.strategy = workers == 1 ? Strategy::kSingle : Strategy::kMirrored;
      const auto found = Trainer(taskWith(std::make_shared<Counter>())).evaluate(evaluation);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(found->loss, summary->test->loss) << bfloat16 << workers;
    }
  }
  EXPECT_NE(losses[0], losses[1]);
}

// An error of the model's own ends all replicas and is the one that is told.
TEST(TrainerTest, AnErrorInOneReplicaEndsAll) {
  const auto hook = std::make_shared<Counter>();
  Task task = taskWith(hook);
  task.model = [] {
    return modelOf(std::make_shared<Net>(), [](const torch::Tensor&, const torch::Tensor& target) {
      if (target.size(0) == 49) throw std::runtime_error("49 samples are too few for me");
      return torch::zeros({}, torch::requires_grad());
    });
  };
  TrainOptions options;
  options.strategy = Strategy::kMirrored;
  options.workers = 2;
  options.batch = 99;  // 50 for the first slice, 49 for the second.
  options.quiet = true;
  const auto summary = Trainer(std::move(task)).run(options);
  EXPECT_FALSE(summary.ok());
  EXPECT_EQ(summary.status().message(),
            "step 1, slice 1: the model: 49 samples are too few for me");
}

// As it was named, or with dashes for underscores.
TEST(ProgramFlagTest, MayHaveUnderscores) {
  for (std::string flag : {"--my_width", "--my-width"}) {
    std::int64_t width = 0;
    std::string program = "program", value = "7";
    std::vector<char*> words = {program.data(), flag.data(), value.data()};
    Trainer trainer({});
    const int code = trainer.main(3, words.data(), {{"--my_width", "units", &width}},
                                  []() -> Task { throw std::runtime_error("no further"); });
    EXPECT_EQ(code, 1) << flag;
    EXPECT_EQ(width, 7) << flag;
  }
}

}  // namespace
}  // namespace colla
