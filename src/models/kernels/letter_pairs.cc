// A pair of letters at distance d, the first of them at place p of the sequence, has the places k
// and k + d in the window that starts at p - k. Windows of one length start at 0 … length - window,
// so at places (k, k + d) there are the pairs with p = k … k + length - window: almost the same for
// every k, and for every window. They are counted once for the longest window and k = 0; a shorter
// window adds the pairs behind them, and each next k gives up one pair in front and takes one
// behind.
#include "models/kernels/letter_pairs.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace colla::models::kernels {
namespace {

const std::array<Shares, kLetters>& allShares() {
  static const auto all = [] {
    std::array<Shares, kLetters> made{};
    for (int letter = 0; letter < kLetters; ++letter) {
      made[static_cast<std::size_t>(letter)] = sharesOf(letter);
    }
    return made;
  }();
  return all;
}

// Calls add(class a, class b, weight) for every share that letter `a` has with `b`.
template <typename Add>
void sharePair(std::size_t a, std::size_t b, double times, const Add& add) {
  const Shares& first = allShares()[a];
  const Shares& second = allShares()[b];
  for (int i = 0; i < first.count; ++i) {
    for (int j = 0; j < second.count; ++j) {
      add(first.classes[i], second.classes[j], times * first.weight * second.weight);
    }
  }
}

// s, exactly: [kClasses][window].
std::vector<double> sumsOf(const Letters& letters, std::int64_t window) {
  std::vector<double> sums(static_cast<std::size_t>(kClasses * window));
  std::array<double, kClasses> counts{};
  const auto add = [&](std::int64_t place, double sign) {
    for (std::int64_t i = 0; i < letters.samples(); ++i) {
      const Shares& shares = allShares()[letters.sample(i)[place]];
      for (int s = 0; s < shares.count; ++s) {
        counts[static_cast<std::size_t>(shares.classes[s])] += sign * shares.weight;
      }
    }
  };
  const std::int64_t last = letters.length() - window;
  for (std::int64_t place = 0; place <= last; ++place) add(place, 1);
  for (std::int64_t k = 0; k < window; ++k) {
    for (std::size_t a = 0; a < kClasses; ++a) {
      sums[a * static_cast<std::size_t>(window) + static_cast<std::size_t>(k)] = counts[a];
    }
    if (k + 1 == window) break;
    add(k, -1);
    add(k + 1 + last, 1);
  }
  return sums;
}

}  // namespace

LetterPairs::LetterPairs(std::shared_ptr<const Letters> letters, std::int64_t longest)
    : letters_(std::move(letters)),
      longest_(longest),
      counts_(static_cast<std::size_t>(kClasses * kClasses * longest)) {
  COLLA_CHECK(longest > 0 && longest <= letters_->length());
  std::vector<std::uint32_t> pairs(std::size_t{kLetters} * kLetters);
  for (std::int64_t distance = 0; distance < longest; ++distance) {
    std::ranges::fill(pairs, 0U);
    for (std::int64_t i = 0; i < letters_->samples(); ++i) {
      const std::uint8_t* const sample = letters_->sample(i);
      // Pairs with padding count for nothing.
      const std::int64_t end =
          std::min(letters_->length() - longest + 1, letters_->used(i) - distance);
      for (std::int64_t p = 0; p < end; ++p) ++pairs[sample[p] * kLetters + sample[p + distance]];
    }
    for (std::size_t pair = 0; pair < pairs.size(); ++pair) {
      sharePair(pair / kLetters, pair % kLetters, pairs[pair],
                [&](int a, int b, double times) { counts_[at(a, b, distance)] += times; });
    }
  }
}

void LetterPairs::addPair(std::int64_t first, std::int64_t distance, double sign,
                          Counts& counts) const {
  for (std::int64_t i = 0; i < letters_->samples(); ++i) {
    const std::uint8_t* const sample = letters_->sample(i);
    sharePair(sample[first], sample[first + distance], sign,
              [&](int a, int b, double times) { counts[at(a, b, distance)] += times; });
  }
}

template <typename T>
void LetterPairs::moments(std::int64_t window, T* sums, T* products) const {
  COLLA_CHECK(window > 0 && window <= longest_);
  const std::vector<double> exact = sumsOf(*letters_, window);
  std::ranges::transform(exact, sums, [](double sum) { return static_cast<T>(sum); });

  const std::int64_t last = letters_->length() - window;
  Counts counts = counts_;
  for (std::int64_t distance = 0; distance < window; ++distance) {
    for (std::int64_t p = letters_->length() - longest_ + 1; p <= last; ++p) {
      addPair(p, distance, 1, counts);
    }
  }
  const std::int64_t width = kClasses * window;
  const double perWindow = 1 / static_cast<double>(windows(window));
  for (std::int64_t k = 0; k < window; ++k) {
    for (int a = 0; a < kClasses; ++a) {
      T* const row = products + (a * window + k) * width + k;
      const double sum = exact[static_cast<std::size_t>(a * window + k)];
      for (int b = 0; b < kClasses; ++b) {
        const double* const count = &counts[at(a, b, 0)];
        const double* const other = &exact[static_cast<std::size_t>(b * window + k)];
        for (std::int64_t d = 0; d < window - k; ++d) {
          row[b * window + d] = static_cast<T>(count[d] - sum * other[d] * perWindow);
        }
      }
    }
    for (std::int64_t d = 0; d + k + 1 < window; ++d) {
      addPair(k, d, -1, counts);
      addPair(k + 1 + last, d, 1, counts);
    }
  }
  // What stands at places (k, k') with k' < k was counted as (k', k).
  for (int a = 0; a < kClasses; ++a) {
    for (int b = 0; b < kClasses; ++b) {
      T* const to = products + a * window * width + b * window;
      const T* const from = products + b * window * width + a * window;
      for (std::int64_t k = 1; k < window; ++k) {
        for (std::int64_t other = 0; other < k; ++other) {
          to[k * width + other] = from[other * width + k];
        }
      }
    }
  }
}

template void LetterPairs::moments<float>(std::int64_t, float*, float*) const;
template void LetterPairs::moments<double>(std::int64_t, double*, double*) const;

}  // namespace colla::models::kernels
