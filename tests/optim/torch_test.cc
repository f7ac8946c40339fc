// Contract: the same training as torch::optim, to rounding. Torch adds and multiplies in another
// order here and there, so bits may differ; anything but rounding would show within these steps.
#include <gtest/gtest.h>
#include <torch/optim.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "optim/cases.h"

namespace colla::optim {
namespace {

constexpr std::int64_t kCount = 203;
constexpr int kSteps = 20;

using torch::optim::Optimizer;
using Parameters = std::vector<torch::Tensor>;

std::unique_ptr<Optimizer> make(const Sgd& o, Parameters parameters) {
  return std::make_unique<torch::optim::SGD>(std::move(parameters), torch::optim::SGDOptions(o.lr)
                                                                        .momentum(o.momentum)
                                                                        .dampening(o.dampening)
                                                                        .weight_decay(o.weightDecay)
                                                                        .nesterov(o.nesterov));
}
std::unique_ptr<Optimizer> make(const Adagrad& o, Parameters parameters) {
  return std::make_unique<torch::optim::Adagrad>(
      std::move(parameters), torch::optim::AdagradOptions(o.lr)
                                 .lr_decay(o.lrDecay)
                                 .weight_decay(o.weightDecay)
                                 .initial_accumulator_value(o.initialAccumulator)
                                 .eps(o.epsilon));
}
std::unique_ptr<Optimizer> make(const RmsProp& o, Parameters parameters) {
  return std::make_unique<torch::optim::RMSprop>(std::move(parameters),
                                                 torch::optim::RMSpropOptions(o.lr)
                                                     .alpha(o.alpha)
                                                     .eps(o.epsilon)
                                                     .weight_decay(o.weightDecay)
                                                     .momentum(o.momentum)
                                                     .centered(o.centered));
}
std::unique_ptr<Optimizer> make(const Adam& o, Parameters parameters) {
  return std::make_unique<torch::optim::Adam>(std::move(parameters),
                                              torch::optim::AdamOptions(o.lr)
                                                  .betas({o.beta1, o.beta2})
                                                  .eps(o.epsilon)
                                                  .weight_decay(o.weightDecay)
                                                  .amsgrad(o.amsgrad));
}
std::unique_ptr<Optimizer> make(const AdamW& o, Parameters parameters) {
  return std::make_unique<torch::optim::AdamW>(std::move(parameters),
                                               torch::optim::AdamWOptions(o.lr)
                                                   .betas({o.beta1, o.beta2})
                                                   .eps(o.epsilon)
                                                   .weight_decay(o.weightDecay)
                                                   .amsgrad(o.amsgrad));
}

// What torch keeps, under the names that its Python side gives it.
std::map<std::string, torch::Tensor, std::less<>> stateOf(const OptimizerOptions& options,
                                                          Optimizer& optimizer) {
  auto& state = *optimizer.state().begin()->second;
  if (std::holds_alternative<Sgd>(options)) {
    return {
        {"momentum_buffer", static_cast<torch::optim::SGDParamState&>(state).momentum_buffer()}};
  }
  if (std::holds_alternative<Adagrad>(options)) {
    return {{"sum", static_cast<torch::optim::AdagradParamState&>(state).sum()}};
  }
  if (std::holds_alternative<RmsProp>(options)) {
    auto& rms = static_cast<torch::optim::RMSpropParamState&>(state);
    return {{"square_avg", rms.square_avg()},
            {"momentum_buffer", rms.momentum_buffer()},
            {"grad_avg", rms.grad_avg()}};
  }
  const auto ofAdam = [](auto& adam) {
    return std::map<std::string, torch::Tensor, std::less<>>{
        {"exp_avg", adam.exp_avg()},
        {"exp_avg_sq", adam.exp_avg_sq()},
        {"max_exp_avg_sq", adam.max_exp_avg_sq()}};
  };
  if (std::holds_alternative<Adam>(options)) {
    return ofAdam(static_cast<torch::optim::AdamParamState&>(state));
  }
  return ofAdam(static_cast<torch::optim::AdamWParamState&>(state));
}

template <typename T>
torch::Tensor tensorOf(const std::vector<T>& values) {
  return torch::tensor(values, torch::dtype(c10::CppTypeToScalarType<T>::value));
}

// In units of the tensor's largest value: averages of both signs come as near to zero as they like.
template <typename T>
double largestDifference(const std::vector<T>& ours, const torch::Tensor& theirs) {
  const T* values = theirs.const_data_ptr<T>();
  double scale = 0, largest = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double difference = std::abs(static_cast<double>(ours[i]) - values[i]);
    if (std::isnan(difference)) return INFINITY;
    largest = std::max(largest, difference);
    scale = std::max(scale, std::abs(static_cast<double>(values[i])));
  }
  return largest / scale;
}

template <typename T>
class TorchTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(TorchTest, Types);

TYPED_TEST(TorchTest, TrainsAsTorchDoes) {
  using T = TypeParam;
  const double tolerance = std::is_same_v<T, float> ? 1e-6 : 1e-14;
  std::mt19937 random(5);
  for (const auto& options : allOptions()) {
    SCOPED_TRACE(toString(options));
    const auto rule = UpdateRule::make(options);
    Tensor<T> ours(*rule, kCount);
    ours.parameter = randomValues<T>(random, kCount);
    auto theirs = tensorOf(ours.parameter);
    const auto optimizer =
        std::visit([&](const auto& chosen) { return make(chosen, {theirs}); }, options);

    for (int step = 0; step < kSteps; ++step) {
      ours.gradient = randomValues<T>(random, kCount);
      theirs.mutable_grad() = tensorOf(ours.gradient);
      const double lr = learningRate(options) * (1 - 0.02 * step);
      optimizer->param_groups()[0].options().set_lr(lr);
      optimizer->step();
      ours.apply(*rule, {.step = step + 1, .lr = lr});
    }

    EXPECT_LE(largestDifference(ours.parameter, theirs), tolerance);
    if (rule->slots().empty()) continue;
    const auto state = stateOf(options, *optimizer);
    for (std::size_t i = 0; i < rule->slots().size(); ++i) {
      const std::string_view name = rule->slots()[i].name;
      ASSERT_TRUE(state.contains(name)) << name;
      EXPECT_LE(largestDifference(ours.slots[i], state.find(name)->second), tolerance) << name;
    }
  }
}

}  // namespace
}  // namespace colla::optim
