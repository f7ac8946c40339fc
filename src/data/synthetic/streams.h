// The streams of random numbers that synthetic sets are made from: one for what is hidden, and one
// for each sample of each part.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "colla/dataset.h"

namespace colla::data {

inline constexpr std::uint64_t kHidden = 0;
constexpr std::uint64_t streamOf(Part part) { return part == Part::kTrain ? 1 : 2; }

// "synthetic:mnist, train part"
inline std::string syntheticTitle(std::string_view name, Part part) {
  return "synthetic:" + std::string(name) + ", " + std::string(toString(part)) + " part";
}

}  // namespace colla::data
