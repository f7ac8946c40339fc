// Mean and variance of a convolution of letters over all positions, without its values.
//
// Batch normalisation needs both, and sends a gradient back to every position: a constant, and a
// part that is proportional to the convolution's own deviation from its mean. The convolution is
// linear in the letters' class vectors x, so all of that is in the first and second moments of x
// over the windows, which do not depend on the filters. With w one filter's weights, M the number
// of windows, s = sum of x and P = sum of (x - s/M)(x - s/M)':
//   mean = w's / M     variance = w'Pw / M     sum of (value - mean) x = Pw
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/kernels/letters.h"

namespace colla::models::kernels {

// Does not change; thread safe.
class LetterPairs {
 public:
  // For windows of up to `longest` letters, which is at most as long as the sequences.
  LetterPairs(std::shared_ptr<const Letters> letters, std::int64_t longest);

  // M: the windows of this length in all samples.
  std::int64_t windows(std::int64_t window) const {
    return letters_->samples() * (letters_->length() - window + 1);
  }

  // Fills s, [kClasses][window], and P, which is symmetric, with a row and a column for each
  // element of s. Both are sums of exact counts, rounded once. For T = float and double.
  template <typename T>
  void moments(std::int64_t window, T* sums, T* products) const;

 private:
  using Counts = std::vector<double>;
  void addPair(std::int64_t first, std::int64_t distance, double sign, Counts& counts) const;
  std::size_t at(int a, int b, std::int64_t distance) const {
    return static_cast<std::size_t>((a * kClasses + b) * longest_ + distance);
  }

  const std::shared_ptr<const Letters> letters_;
  const std::int64_t longest_;
  // How often class a is followed by class b at a distance, [a][b][distance], where the first of
  // the two has place 0 in some window of the longest kind.
  Counts counts_;
};

}  // namespace colla::models::kernels
