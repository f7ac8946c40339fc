// Long short-term memory, one layer: parameters, their names and the order of the gates are those
// of torch.nn.LSTM, with its projection, so that Python loads them into one.
//
// Written out, because libtorch's own takes a slow way with a projection and warns about it.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace colla::models {

class LstmImpl : public torch::nn::Module {
 public:
  struct State {
    torch::Tensor h;  // samples x output
    torch::Tensor c;  // samples x units
  };

  // Gives `projection` numbers, or with 0 its `units`. Begins uniform within `bound`, biases 0 but
  // for the forget gate's, which begins with 1 as TensorFlow has it.
  LstmImpl(std::int64_t input, std::int64_t units, std::int64_t projection, double bound);

  // Nothing seen yet.
  State begin(std::int64_t samples) const;
  // What inputs, samples x input or with more dimensions in front, bring to the gates.
  torch::Tensor gates(const torch::Tensor& input) const;
  // One step, for a row of gates() per sample.
  State step(const torch::Tensor& gates, const State& state) const;
  // All steps of length x samples x input, from `state` on, which then is the last one's: length x
  // samples x output.
  torch::Tensor forward(const torch::Tensor& input, State& state) const;

 private:
  const std::int64_t units_;
  torch::Tensor inputWeight_;
  torch::Tensor stateWeight_;
  torch::Tensor inputBias_;
  torch::Tensor stateBias_;
  torch::Tensor projection_;  // Undefined: none.
};
TORCH_MODULE(Lstm);

}  // namespace colla::models
