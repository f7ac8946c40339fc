#include "models/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "base/check.h"
#include "models/linear.h"

namespace colla::models {

Candidates drawCandidates(std::int64_t classes, std::int64_t count) {
  COLLA_CHECK(count < classes);
  const double range = std::log1p(static_cast<double>(classes));
  Candidates drawn;
  std::unordered_set<std::int64_t> seen;
  seen.reserve(static_cast<std::size_t>(count));
  while (static_cast<std::int64_t>(seen.size()) < count) {
    // A block at a time; what is left of the last one is not used.
    const std::int64_t block = 2 * (count - static_cast<std::int64_t>(seen.size())) + 16;
    const torch::Tensor units = torch::rand({block}, torch::kFloat64);
    const auto* unit = units.const_data_ptr<double>();
    for (std::int64_t i = 0; i < block && static_cast<std::int64_t>(seen.size()) < count; ++i) {
      const auto value = static_cast<std::int64_t>(std::exp(unit[i] * range)) - 1;
      const std::int64_t candidate = std::clamp<std::int64_t>(value, 0, classes - 1);
      ++drawn.draws;
      if (seen.insert(candidate).second) drawn.classes.push_back(candidate);
    }
  }
  return drawn;
}

torch::Tensor logExpected(const torch::Tensor& classes, std::int64_t all, std::int64_t draws) {
  const torch::Tensor k = classes.to(torch::kFloat64);
  const torch::Tensor p = torch::log1p(1 / (k + 1)) / std::log1p(static_cast<double>(all));
  return torch::log(-torch::expm1(static_cast<double>(draws) * torch::log1p(-p)))
      .to(torch::kFloat32);
}

torch::Tensor sampledLosses(const torch::Tensor& state, const torch::Tensor& targets,
                            const torch::Tensor& weight, const torch::Tensor& bias,
                            std::int64_t candidates) {
  const std::int64_t all = weight.size(0);
  Candidates drawn;
  if (candidates < all) drawn = drawCandidates(all, candidates);
  const torch::Tensor sampled = candidates < all ? torch::tensor(drawn.classes, torch::kInt64)
                                                 : torch::arange(all, torch::kInt64);
  const std::int64_t rows = targets.size(0);
  const std::int64_t count = sampled.size(0);

  // Weights of both at once, so that there is one sparse gradient.
  const torch::Tensor classes = torch::cat({targets, sampled});
  const torch::Tensor vectors = torch::embedding(weight, classes, -1, false, true);
  torch::Tensor shifts = torch::gather(bias, 0, classes, true);
  if (candidates < all) shifts = shifts - logExpected(classes, all, drawn.draws);
  const torch::Tensor own = (state * vectors.narrow(0, 0, rows)).sum(1) + shifts.narrow(0, 0, rows);
  torch::Tensor others =
      linear(state, vectors.narrow(0, rows, count), shifts.narrow(0, rows, count));
  const torch::Tensor hits = targets.unsqueeze(1).eq(sampled.unsqueeze(0));
  others = others.masked_fill(hits, -std::numeric_limits<float>::infinity());
  return torch::cat({own.unsqueeze(1), others}, 1).logsumexp(1) - own;
}

torch::Tensor fullLosses(const torch::Tensor& state, const torch::Tensor& targets,
                         const torch::Tensor& weight, const torch::Tensor& bias) {
  constexpr std::int64_t kMostLogits = std::int64_t{1} << 22;  // 16 MiB.
  const std::int64_t rows = std::max<std::int64_t>(1, kMostLogits / weight.size(0));
  std::vector<torch::Tensor> losses;
  for (std::int64_t begin = 0; begin < state.size(0); begin += rows) {
    const std::int64_t count = std::min(rows, state.size(0) - begin);
    losses.push_back(torch::nn::functional::cross_entropy(
        torch::addmm(bias, state.narrow(0, begin, count), weight.t()),
        targets.narrow(0, begin, count),
        torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone)));
  }
  return torch::cat(losses);
}

}  // namespace colla::models
