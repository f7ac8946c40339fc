// Sequences of protein letters, in the form that the kernels read.
//
// A letter is a number: 0 is padding, 1 to 20 are the amino acids ACDEFGHIKLMNPQRSTVWY, 21 to 23
// are B, Z and J, which stand for two amino acids each, and 24 is X, any other. A model sees a
// letter as a vector over kClasses classes, the amino acids and X: B is half D and half N, Z half E
// and half Q, J half I and half L; padding is zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "colla/status.h"

namespace colla::models::kernels {

inline constexpr int kLetters = 25;
inline constexpr int kClasses = 21;

// The classes that a letter has a share of: none, one of weight 1, or two of weight 1/2.
struct Shares {
  int count;
  int classes[2];
  double weight;
};
Shares sharesOf(int letter);

// A batch of sequences of one length. Does not change; thread safe.
class Letters {
 public:
  // `letters` has samples x length of them; it is copied. kInvalidArgument for numbers that are no
  // letters, with sample and place.
  static Result<std::shared_ptr<const Letters>> create(std::span<const std::uint8_t> letters,
                                                       std::int64_t samples, std::int64_t length);

  std::int64_t samples() const { return samples_; }
  std::int64_t length() const { return length_; }
  const std::uint8_t* sample(std::int64_t number) const { return &letters_[at(number)]; }
  // Everything from here to the end is padding.
  std::int64_t used(std::int64_t number) const { return used_[static_cast<std::size_t>(number)]; }

  // There is at least so much padding behind each sample's letters: a kernel may read over the end.
  static constexpr std::int64_t kMargin = 8;

 private:
  Letters() = default;
  std::size_t at(std::int64_t number) const {
    return static_cast<std::size_t>(number * (length_ + kMargin));
  }

  std::int64_t samples_ = 0;
  std::int64_t length_ = 0;
  std::vector<std::uint8_t> letters_;
  std::vector<std::int64_t> used_;
};

}  // namespace colla::models::kernels
