// The candidates of a sampled softmax, drawn as TensorFlow's log_uniform_candidate_sampler draws
// them: classes in the order of their frequency, class k with probability
// log((k + 2) / (k + 1)) / log(classes + 1), each at most once.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace colla::models {

struct Candidates {
  std::vector<std::int64_t> classes;
  std::int64_t draws = 0;  // How many it took.
};

// `count` of them, fewer than `classes`. The random numbers are libtorch's: inside
// Model::compute(), the slice's.
Candidates drawCandidates(std::int64_t classes, std::int64_t count);

// The logarithm of how often a class is expected among candidates that took so many draws, for each
// of `classes` (int64): log(1 - (1 - p)^draws).
torch::Tensor logExpected(const torch::Tensor& classes, std::int64_t all, std::int64_t draws);

// Cross entropy of each row of `state` (n x width) with its class in `targets` (n), against the
// candidates alone instead of all classes. Logits are corrected by the candidates' frequency, and a
// candidate that is the row's own target is left out. With as many candidates as classes or more it
// is the whole softmax. `weight` (classes x width) and `bias`
// (classes) get sparse gradients.
torch::Tensor sampledLosses(const torch::Tensor& state, const torch::Tensor& targets,
                            const torch::Tensor& weight, const torch::Tensor& bias,
                            std::int64_t candidates);

// The same against all classes, in pieces that take little memory; for evaluation, no gradients.
torch::Tensor fullLosses(const torch::Tensor& state, const torch::Tensor& targets,
                         const torch::Tensor& weight, const torch::Tensor& bias);

}  // namespace colla::models
