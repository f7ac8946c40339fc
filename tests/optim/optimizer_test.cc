#include "colla/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "optim/cases.h"

namespace colla {
namespace {

using testing::HasSubstr;

TEST(OptimizerOptionsTest, NamesGiveTheDefaultsOfTorch) {
  const auto text = [](std::string_view name) { return toString(*parseOptimizer(name)); };
  EXPECT_EQ(text("sgd"), "sgd lr=0.001 momentum=0 dampening=0 weight_decay=0 nesterov=false");
  EXPECT_EQ(text("momentum"),
            "sgd lr=0.001 momentum=0.9 dampening=0 weight_decay=0 nesterov=false");
  EXPECT_EQ(text("adagrad"),
            "adagrad lr=0.01 lr_decay=0 weight_decay=0 initial_accumulator=0 epsilon=1e-10");
  EXPECT_EQ(text("rmsprop"),
            "rmsprop lr=0.01 alpha=0.99 epsilon=1e-08 weight_decay=0 momentum=0 centered=false");
  EXPECT_EQ(text("adam"),
            "adam lr=0.001 beta1=0.9 beta2=0.999 epsilon=1e-08 weight_decay=0 amsgrad=false");
  EXPECT_EQ(text("adamw"),
            "adamw lr=0.001 beta1=0.9 beta2=0.999 epsilon=1e-08 weight_decay=0.01 amsgrad=false");
}

TEST(OptimizerOptionsTest, UnknownNameIsRefusedWithTheOnesThereAre) {
  const auto result = parseOptimizer("Adam");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(toString(result.status()), HasSubstr("\"Adam\" is not one of sgd, momentum"));
}

// What a checkpoint holds must tell any two settings apart, also those one last bit apart.
TEST(OptimizerOptionsTest, TextDiffersWhereverOptionsDiffer) {
  auto all = optim::allOptions();
  all.emplace_back(Adam{.lr = 0.1});
  all.emplace_back(Adam{.lr = std::nextafter(0.1, 1.0)});
  std::set<std::string> texts;
  for (const auto& options : all) {
    EXPECT_TRUE(texts.insert(toString(options)).second) << toString(options);
  }
}

TEST(OptimizerOptionsTest, LearningRateIsSetWhateverTheOptimizer) {
  for (auto options : optim::allOptions()) {
    setLearningRate(options, 0.125);
    EXPECT_EQ(learningRate(options), 0.125);
    EXPECT_THAT(toString(options), HasSubstr(" lr=0.125 "));
  }
}

TEST(OptimizerOptionsTest, ValidOptionsAreTaken) {
  for (const auto& options : optim::allOptions()) EXPECT_TRUE(validate(options).ok());
  EXPECT_TRUE(validate(Sgd{.lr = 0}).ok());
}

TEST(OptimizerOptionsTest, BadNumbersAreRefusedByName) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::pair<OptimizerOptions, const char*> bad[] = {
      {Sgd{.lr = -0.1}, "optimizer sgd: lr is -0.1: it must be a number of at least 0"},
      {AdamW{.lr = kNan}, "optimizer adamw: lr is nan"},
      {Adam{.lr = kInfinity}, "optimizer adam: lr is inf"},
      {Sgd{.momentum = -1}, "momentum is -1"},
      {Sgd{.dampening = kNan}, "dampening is nan"},
      {Sgd{.weightDecay = -1e-4}, "weight_decay is -0.0001"},
      {Sgd{.nesterov = true}, "nesterov needs a momentum"},
      {Sgd{.momentum = 0.9, .dampening = 0.1, .nesterov = true},
       "dampening is 0.1: it must be 0 with nesterov"},
      {Adagrad{.lrDecay = -1}, "lr_decay is -1"},
      {Adagrad{.initialAccumulator = -1}, "initial_accumulator is -1"},
      {Adagrad{.epsilon = -1}, "epsilon is -1"},
      {RmsProp{.alpha = 1}, "alpha is 1: it must be at least 0 and below 1"},
      {RmsProp{.epsilon = kNan}, "epsilon is nan"},
      {RmsProp{.momentum = -0.5}, "momentum is -0.5"},
      {Adam{.beta1 = 1}, "beta1 is 1: it must be at least 0 and below 1"},
      {Adam{.beta2 = -0.1}, "beta2 is -0.1"},
      {AdamW{.beta2 = kNan}, "beta2 is nan"},
      {AdamW{.weightDecay = kInfinity}, "weight_decay is inf"},
      {AdamW{.epsilon = -1e-8}, "epsilon is -1e-08"},
  };
  for (const auto& [options, text] : bad) {
    const Status status = validate(options);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << toString(options);
    EXPECT_THAT(toString(status), HasSubstr(text));
    EXPECT_FALSE(optim::UpdateRule::make(options).ok());
  }
}

}  // namespace
}  // namespace colla
