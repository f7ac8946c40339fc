// Optimizers of a program's own, and groups of parameters, for program.cc.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "colla/trainer.h"

namespace colla {

// Two optimizers in one: libtorch's interface sees neither their state nor their rates.
struct Both : torch::optim::Optimizer {
  explicit Both(const std::vector<torch::Tensor>& parameters)
      : Optimizer({torch::optim::OptimizerParamGroup(parameters)},
                  std::make_unique<torch::optim::SGDOptions>(0.1)),
        first(std::vector<torch::Tensor>{parameters.front()},
              torch::optim::SGDOptions(0.1).momentum(0.9)),
        rest(std::vector(parameters.begin() + 1, parameters.end())) {}
  torch::Tensor step(LossClosure /*closure*/ = nullptr) override {
    first.step();
    return rest.step();
  }
  void save(torch::serialize::OutputArchive& archive) const override {
    torch::optim::serialize<torch::optim::SGDParamState, torch::optim::SGDOptions>(archive, *this);
  }
  void load(torch::serialize::InputArchive& archive) override {
    torch::optim::serialize<torch::optim::SGDParamState, torch::optim::SGDOptions>(archive, *this);
  }
  torch::optim::SGD first;
  torch::optim::Adam rest;
};

// Pulls the parameters back every fifth step, to half of the way that they have gone since the
// fifth step before. A checkpoint has neither the count nor where they were then.
struct Lookahead : torch::optim::Adam {
  explicit Lookahead(const std::vector<torch::Tensor>& parameters) : Adam(parameters) {
    for (const torch::Tensor& parameter : parameters) slow.push_back(parameter.detach().clone());
  }
  torch::Tensor step(LossClosure closure = nullptr) override {
    torch::Tensor loss = Adam::step(std::move(closure));
    if (++steps % 5 > 0) return loss;
    const torch::NoGradGuard noGrad;
    const std::vector<torch::Tensor>& parameters = param_groups_.front().params();
    for (std::size_t i = 0; i < slow.size(); ++i) {
      slow[i].lerp_(parameters[i], 0.5);
      torch::Tensor(parameters[i]).copy_(slow[i]);
    }
    return loss;
  }
  std::vector<torch::Tensor> slow;
  int steps = 0;
};

// Moves the parameters in every third step alone, by a rate of its own.
struct Collecting : torch::optim::SGD {
  explicit Collecting(const std::vector<torch::Tensor>& parameters)
      : SGD(parameters, torch::optim::SGDOptions(0.1)) {}
  torch::Tensor step(LossClosure /*closure*/ = nullptr) override {
    if (++steps % 3 > 0) return {};
    const torch::NoGradGuard noGrad;
    for (torch::Tensor parameter : param_groups_.front().params()) {
      if (parameter.grad().defined()) parameter.sub_(parameter.grad(), 0.1);
    }
    return {};
  }
  int steps = 0;
};

// Steps of a length at random, by libtorch's default generator.
struct Drawing : torch::optim::SGD {
  explicit Drawing(const std::vector<torch::Tensor>& parameters)
      : SGD(parameters, torch::optim::SGDOptions(0.1)) {}
  torch::Tensor step(LossClosure /*closure*/ = nullptr) override {
    const torch::NoGradGuard noGrad;
    const double rate = param_groups_.front().options().get_lr() * torch::rand({}).item<double>();
    for (torch::Tensor parameter : param_groups_.front().params()) {
      if (parameter.grad().defined()) parameter.sub_(parameter.grad(), rate);
    }
    return {};
  }
};

// Two optimizers in one, as a Trainer can save and schedule them.
class BothOwn : public OwnOptimizer {
 public:
  explicit BothOwn(NamedTensors parameters) {
    std::vector<torch::Tensor> rest;
    for (std::size_t i = 1; i < parameters.size(); ++i) rest.push_back(parameters[i].second);
    parts_.push_back(asOwnOptimizer(
        std::make_unique<torch::optim::SGD>(std::vector<torch::Tensor>{parameters.front().second},
                                            torch::optim::SGDOptions(0.1).momentum(0.9)),
        parameters));
    parts_.push_back(
        asOwnOptimizer(std::make_unique<torch::optim::Adam>(std::move(rest)), parameters));
  }
  void step() override {
    for (const auto& part : parts_) part->step();
  }
  NamedTensors state() const override {
    NamedTensors all;
    for (const auto& part : parts_) {
      for (auto& tensor : part->state()) all.push_back(std::move(tensor));
    }
    return all;
  }
  void restore(const NamedTensors& state) override {
    for (const auto& part : parts_) part->restore(state);
  }
  void setLearningRate(double factor) override {
    for (const auto& part : parts_) part->setLearningRate(factor);
  }

 private:
  std::vector<std::unique_ptr<OwnOptimizer>> parts_;
};

// Written from nothing: signs of a running mean, with noise that gets smaller. `forgets` its count
// of steps when it is saved.
class Noisy : public OwnOptimizer {
 public:
  Noisy(NamedTensors parameters, bool forgets)
      : parameters_(std::move(parameters)), forgets_(forgets) {
    for (const auto& [name, tensor] : parameters_) means_.push_back(torch::zeros_like(tensor));
  }
  void step() override {
    const torch::NoGradGuard noGrad;
    ++steps_;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      torch::Tensor& tensor = parameters_[i].second;
      if (!tensor.grad().defined()) continue;
      means_[i].mul_(0.9).add_(tensor.grad(), 0.1);
      const double rate = 1e-3 * factor_ * (1 + 1.0 / static_cast<double>(steps_));
      tensor.add_(means_[i].sign(), -rate);
    }
  }
  NamedTensors state() const override {
    NamedTensors state;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      state.emplace_back(parameters_[i].first + "/mean", means_[i].t());
    }
    if (!forgets_) state.emplace_back("steps", torch::tensor(steps_, torch::kInt64));
    state.emplace_back("factor", torch::tensor(factor_, torch::kFloat64));
    return state;
  }
  void restore(const NamedTensors& state) override {
    for (const auto& [name, tensor] : state) {
      if (name == "steps") steps_ = tensor.item<std::int64_t>();
      if (name == "factor") factor_ = tensor.item<double>();
      for (std::size_t i = 0; i < parameters_.size(); ++i) {
        if (name == parameters_[i].first + "/mean") means_[i].copy_(tensor.t());
      }
    }
  }
  void setLearningRate(double factor) override { factor_ = factor; }

 private:
  NamedTensors parameters_;
  const bool forgets_;
  std::vector<torch::Tensor> means_;
  std::int64_t steps_ = 0;
  double factor_ = 1;
};

inline OwnOptimizerMaker ownOptimizer(const std::string& name) {
  if (name == "both-own") {
    return {
        [](NamedTensors parameters) { return std::make_unique<BothOwn>(std::move(parameters)); },
        name};
  }
  return {[forgets = name == "forgetful"](NamedTensors parameters) {
            return std::make_unique<Noisy>(std::move(parameters), forgets);
          },
          name};
}

// Each of some parameters by itself, and the others of a module together, with options at random;
// at least one is trained.
inline std::vector<ParameterGroup> randomGroups(unsigned seed) {
  std::mt19937 random(seed);
  const auto oneOf = [&](std::initializer_list<double> values) {
    return values.begin()[random() % values.size()];
  };
  std::vector<ParameterGroup> groups;
  for (const std::string pattern : {"table.*", "hidden.weight", "hidden.b?as", "norm*", "out.*"}) {
    if (random() % 5 == 0) continue;
    ParameterGroup group{.parameters = pattern};
    group.frozen = random() % 6 == 0 && pattern != "out.*";
    if (!group.frozen) {
      group.lrFactor = oneOf({1, 0.3, 2});
      if (random() % 2 == 0) group.weightDecay = oneOf({0, 0.01});
      switch (random() % 7) {
        case 0:
          group.optimizer = Sgd{.lr = 0.02};
          break;
        case 1:
          group.optimizer = Sgd{.lr = 0.02, .momentum = 0.9, .nesterov = true};
          break;
        case 2:
          group.optimizer = Adagrad{.lr = 0.01, .initialAccumulator = 0.1};
          break;
        case 3:
          group.optimizer = RmsProp{.lr = 1e-3, .momentum = 0.5, .centered = true};
          break;
        case 4:
          group.optimizer = AdamW{.lr = 1e-3, .amsgrad = true};
          break;
        default:
          break;  // The task's.
      }
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace colla
