#include "models/lstm.h"

#include "models/linear.h"

namespace colla::models {

LstmImpl::LstmImpl(std::int64_t input, std::int64_t units, std::int64_t projection, double bound)
    : units_(units) {
  const auto uniform = [&](std::int64_t rows, std::int64_t columns) {
    return torch::empty({rows, columns}).uniform_(-bound, bound);
  };
  const std::int64_t output = projection > 0 ? projection : units;
  torch::Tensor bias = torch::zeros(4 * units);
  bias.slice(0, units, 2 * units).fill_(1);
  inputWeight_ = register_parameter("weight_ih_l0", uniform(4 * units, input));
  stateWeight_ = register_parameter("weight_hh_l0", uniform(4 * units, output));
  inputBias_ = register_parameter("bias_ih_l0", std::move(bias));
  stateBias_ = register_parameter("bias_hh_l0", torch::zeros(4 * units));
  if (projection > 0) projection_ = register_parameter("weight_hr_l0", uniform(output, units));
}

LstmImpl::State LstmImpl::begin(std::int64_t samples) const {
  return {torch::zeros({samples, stateWeight_.size(1)}), torch::zeros({samples, units_})};
}

torch::Tensor LstmImpl::gates(const torch::Tensor& input) const {
  return linear(input, inputWeight_, inputBias_ + stateBias_);
}

LstmImpl::State LstmImpl::step(const torch::Tensor& gates, const State& state) const {
  const torch::Tensor all = torch::addmm(gates, state.h, stateWeight_.t());
  const torch::Tensor inAndForget = torch::sigmoid(all.slice(1, 0, 2 * units_));
  const torch::Tensor candidate = torch::tanh(all.slice(1, 2 * units_, 3 * units_));
  const torch::Tensor out = torch::sigmoid(all.slice(1, 3 * units_, 4 * units_));
  const torch::Tensor in = inAndForget.slice(1, 0, units_);
  const torch::Tensor forget = inAndForget.slice(1, units_, 2 * units_);
  State next;
  next.c = torch::addcmul(forget * state.c, in, candidate);
  next.h = out * torch::tanh(next.c);
  if (projection_.defined()) next.h = next.h.mm(projection_.t());
  return next;
}

torch::Tensor LstmImpl::forward(const torch::Tensor& input, State& state) const {
  const std::vector<torch::Tensor> steps = gates(input).unbind(0);
  std::vector<torch::Tensor> outputs;
  outputs.reserve(steps.size());
  for (const torch::Tensor& each : steps) {
    state = step(each, state);
    outputs.push_back(state.h);
  }
  return torch::stack(outputs);
}

}  // namespace colla::models
