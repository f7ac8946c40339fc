#include "study/equality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "checkpoint/compare.h"
#include "checkpoint/source.h"

namespace colla::study {
namespace {

double differenceOf(const checkpoint::Source& a, const checkpoint::Source& b) {
  const checkpoint::Comparison comparison = checkpoint::compare(a, b);
  if (comparison.equal()) return 0;
  double weights = 0;
  double all = 0;
  for (const checkpoint::TensorComparison& tensor : comparison.tensors) {
    if (tensor.equal()) continue;
    // Tensors that only one of them has, or of other shapes.
    if (tensor.outcome != checkpoint::Outcome::kDifferent || tensor.nan) return -1;
    all = std::max(all, tensor.largestAbsolute);
    if (tensor.part != checkpoint::Part::kOptimizer)
      weights = std::max(weights, tensor.largestAbsolute);
  }
  // The optimizer's state has numbers of a different kind: counts of updates, for one. And bits may
  // differ where values do not.
  return weights > 0 ? weights : std::max(all, std::nextafter(0.0, 1.0));
}

}  // namespace

std::vector<EqualityMatrix> compareAll(const std::vector<Variant>& variants,
                                       const std::vector<std::int64_t>& steps,
                                       std::int64_t stepsOfOne, const std::string& runs) {
  std::vector<EqualityMatrix> matrices;
  for (const std::int64_t step : steps) {
    EqualityMatrix matrix;
    matrix.step = step;
    std::vector<std::string> places;
    for (const Variant& variant : variants) {
      if (variant.purpose == Purpose::kAlternative || stepsOfOne <= 0) continue;
      const std::int64_t own = step * (variant.steps / stepsOfOne);
      const std::string place = fmt::format("{}/{}/0/training@{}", runs, variant.id, own);
      if (!checkpoint::Source::open(place).ok()) continue;
      matrix.variants.push_back(variant.id);
      places.push_back(place);
    }
    const std::size_t count = places.size();
    matrix.differences.assign(count, std::vector<double>(count, 0));
    for (std::size_t a = 0; a < count; ++a) {
      const auto left = checkpoint::Source::open(places[a]);
      for (std::size_t b = a + 1; b < count && left.ok(); ++b) {
        const auto right = checkpoint::Source::open(places[b]);
        const double difference = right.ok() ? differenceOf(*left, *right) : -1;
        matrix.differences[a][b] = matrix.differences[b][a] = difference;
      }
    }
    if (count > 1) matrices.push_back(std::move(matrix));
  }
  return matrices;
}

}  // namespace colla::study
