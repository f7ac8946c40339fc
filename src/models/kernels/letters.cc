#include "models/kernels/letters.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace colla::models::kernels {
namespace {

// Places in ACDEFGHIKLMNPQRSTVWY.
constexpr int kD = 2, kE = 3, kI = 7, kL = 9, kN = 11, kQ = 13;
constexpr int kAny = 20;

}  // namespace

Shares sharesOf(int letter) {
  switch (letter) {
    case 0:
      return {0, {0, 0}, 0};
    case 21:
      return {2, {kD, kN}, 0.5};
    case 22:
      return {2, {kE, kQ}, 0.5};
    case 23:
      return {2, {kI, kL}, 0.5};
    case 24:
      return {1, {kAny, 0}, 1};
    default:
      COLLA_CHECK(letter > 0 && letter < kLetters);
      return {1, {letter - 1, 0}, 1};
  }
}

Result<std::shared_ptr<const Letters>> Letters::create(std::span<const std::uint8_t> letters,
                                                       std::int64_t samples, std::int64_t length) {
  COLLA_CHECK(std::ssize(letters) == samples * length);
  std::shared_ptr<Letters> made(new Letters);
  made->samples_ = samples;
  made->length_ = length;
  made->letters_.resize(made->at(samples));
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto sample =
        letters.subspan(static_cast<std::size_t>(i * length), static_cast<std::size_t>(length));
    const auto wrong = std::ranges::find_if(sample, [](int letter) { return letter >= kLetters; });
    if (wrong != sample.end()) {
      return {StatusCode::kInvalidArgument,
              fmt::format("{} at place {} of sample {} is no letter: they go from 0 to {}", *wrong,
                          wrong - sample.begin(), i, kLetters - 1)};
    }
    std::ranges::copy(sample, &made->letters_[made->at(i)]);
    std::int64_t used = length;
    while (used > 0 && sample[static_cast<std::size_t>(used - 1)] == 0) --used;
    made->used_.push_back(used);
  }
  return std::shared_ptr<const Letters>(std::move(made));
}

}  // namespace colla::models::kernels
