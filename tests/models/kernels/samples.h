// Sequences and weights for the kernels' tests, and class vectors written out.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "models/kernels/letters.h"

namespace colla::models::kernels {

struct Samples {
  std::int64_t samples;
  std::int64_t length;
  std::vector<std::uint8_t> letters;

  std::shared_ptr<const Letters> made() const { return *Letters::create(letters, samples, length); }
  int at(std::int64_t sample, std::int64_t place) const { return letters[sample * length + place]; }
};

// All letters, B, Z, J and X among them, some padding in between, and a tail of padding that is
// none, all or something of the sequence.
inline Samples randomSamples(std::mt19937& random, std::int64_t samples, std::int64_t length) {
  Samples made{samples, length, {}};
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t used = i == 0 ? length : i == 1 ? 0 : random() % (length + 1);
    for (std::int64_t place = 0; place < length; ++place) {
      made.letters.push_back(place < used ? random() % kLetters : 0);
    }
  }
  return made;
}

// The class vector of a letter, by its name.
inline std::vector<double> classVector(int letter) {
  const std::string names = "_ACDEFGHIKLMNPQRSTVWYBZJX";
  const std::string classes = "ACDEFGHIKLMNPQRSTVWYX";
  std::vector<double> vector(classes.size());
  const auto add = [&](char name, double share) { vector.at(classes.find(name)) += share; };
  switch (names[letter]) {
    case '_':
      break;
    case 'B':
      add('D', 0.5);
      add('N', 0.5);
      break;
    case 'Z':
      add('E', 0.5);
      add('Q', 0.5);
      break;
    case 'J':
      add('I', 0.5);
      add('L', 0.5);
      break;
    default:
      add(names[letter], 1);
  }
  return vector;
}

// The values of a convolution at every position of one sample, by the formula.
template <typename T>
std::vector<double> convolution(const Samples& samples, std::int64_t sample, const T* filter,
                                std::int64_t window) {
  std::vector<double> values;
  for (std::int64_t start = 0; start + window <= samples.length; ++start) {
    double value = 0;
    for (std::int64_t k = 0; k < window; ++k) {
      const auto vector = classVector(samples.at(sample, start + k));
      for (int c = 0; c < kClasses; ++c) value += vector[c] * filter[c * window + k];
    }
    values.push_back(value);
  }
  return values;
}

}  // namespace colla::models::kernels
