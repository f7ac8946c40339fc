#include "models/kernels/letter_convolution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/instruction_set.h"
#include "models/kernels/letter_convolution_kernel.h"

namespace colla::models::kernels {
namespace {

template <typename T>
MaxKernel<T> maxKernel() {
  return hasAvx2() ? avx2MaxKernel<T>() : baselineMaxKernel<T>();
}

// The rows of some filters, one per lane, for every place and letter.
template <typename T>
class Table {
 public:
  explicit Table(std::int64_t window)
      : window_(window), rows_(static_cast<std::size_t>(window * kLetters)) {}

  // Of `count` filters; the lanes behind them get what the last one has.
  void fill(const T* weight, std::int64_t count) {
    const T* filters[kLanes<T>];
    for (std::int64_t lane = 0; lane < kLanes<T>; ++lane) {
      filters[lane] = weight + std::min(lane, count - 1) * kClasses * window_;
    }
    for (int letter = 0; letter < kLetters; ++letter) {
      const Shares shares = sharesOf(letter);
      if (shares.count == 0) continue;  // Zero from the beginning.
      const std::int64_t first = shares.classes[0] * window_;
      const std::int64_t second = shares.classes[shares.count - 1] * window_;
      for (std::int64_t k = 0; k < window_; ++k) {
        Row& row = rows_[static_cast<std::size_t>(k * kLetters + letter)];
        for (int lane = 0; lane < kLanes<T>; ++lane) row.lane[lane] = filters[lane][first + k];
        if (shares.count == 1) continue;
        // Halving is exact, so that two halves are rounded once, where they meet.
        for (int lane = 0; lane < kLanes<T>; ++lane) {
          row.lane[lane] = T{0.5} * row.lane[lane] + T{0.5} * filters[lane][second + k];
        }
      }
    }
  }
  const T* data() const { return rows_.front().lane; }

 private:
  struct alignas(kRowBytes) Row {
    T lane[kLanes<T>];
  };

  const std::int64_t window_;
  std::vector<Row> rows_;
};

}  // namespace

template <typename T>
void maxConvolution(const Letters& letters, const T* weight, std::int64_t filters,
                    std::int64_t window, FilterRange range, T* value, std::int32_t* position) {
  COLLA_CHECK(window > 0 && window <= letters.length());
  const MaxKernel<T> kernel = maxKernel<T>();
  const std::int64_t perFilter = kClasses * window;
  Table<T> table(window);
  for (std::int64_t first = range.begin; first < range.end; first += kLanes<T>) {
    const std::int64_t count = std::min<std::int64_t>(kLanes<T>, range.end - first);
    table.fill(weight + first * perFilter, count);
    bool broken[kLanes<T>] = {};
    for (std::int64_t lane = 0; lane < count; ++lane) {
      const T* const filter = weight + (first + lane) * perFilter;
      for (std::int64_t i = 0; i < perFilter; ++i) broken[lane] |= std::isnan(filter[i]);
    }
    for (std::int64_t i = 0; i < letters.samples(); ++i) {
      // Behind the letters all windows are worth the same: the first of them stands for the rest.
      const std::int64_t positions = std::min(letters.length() - window, letters.used(i)) + 1;
      T values[kLanes<T>];
      std::int32_t places[kLanes<T>];
      kernel(table.data(), window, letters.sample(i), positions, values, places);
      for (std::int64_t lane = 0; lane < count; ++lane) {
        const std::int64_t at = i * filters + first + lane;
        value[at] = broken[lane] ? std::numeric_limits<T>::quiet_NaN() : values[lane];
        position[at] = places[lane];
      }
    }
  }
}

// All samples of one filter before the next: a filter's gradient stays in the cache. It is
// collected by letters, and shared out to classes at the end.
template <typename T>
void maxConvolutionBackward(const Letters& letters, const T* gradient, const std::int32_t* position,
                            std::int64_t filters, std::int64_t window, FilterRange range,
                            T* weightGradient) {
  std::vector<T> byLetter(static_cast<std::size_t>(kLetters * window));
  for (std::int64_t filter = range.begin; filter < range.end; ++filter) {
    std::ranges::fill(byLetter, T{0});
    for (std::int64_t i = 0; i < letters.samples(); ++i) {
      const T share = gradient[i * filters + filter];
      if (share == 0) continue;  // ReLU let nothing through.
      const std::uint8_t* const won = letters.sample(i) + position[i * filters + filter];
      T* const sums = byLetter.data();
      for (std::int64_t k = 0; k < window; ++k) sums[won[k] * window + k] += share;
    }
    T* const classes = weightGradient + filter * kClasses * window;
    std::fill_n(classes, kClasses * window, T{0});
    for (int letter = 0; letter < kLetters; ++letter) {
      const Shares shares = sharesOf(letter);
      const T* const from = &byLetter[static_cast<std::size_t>(letter * window)];
      for (int s = 0; s < shares.count; ++s) {
        T* const to = classes + shares.classes[s] * window;
        const T weight = static_cast<T>(shares.weight);
        for (std::int64_t k = 0; k < window; ++k) to[k] += weight * from[k];
      }
    }
  }
}

template void maxConvolution<float>(const Letters&, const float*, std::int64_t, std::int64_t,
                                    FilterRange, float*, std::int32_t*);
template void maxConvolution<double>(const Letters&, const double*, std::int64_t, std::int64_t,
                                     FilterRange, double*, std::int32_t*);
template void maxConvolutionBackward<float>(const Letters&, const float*, const std::int32_t*,
                                            std::int64_t, std::int64_t, FilterRange, float*);
template void maxConvolutionBackward<double>(const Letters&, const double*, const std::int32_t*,
                                             std::int64_t, std::int64_t, FilterRange, double*);

}  // namespace colla::models::kernels
