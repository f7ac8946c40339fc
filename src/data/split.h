// A set that comes in one piece serves both parts: every fifth sample is for the test.
#pragma once

#include <cstdint>

#include "colla/dataset.h"

namespace colla::data {

// What of a file's samples belongs to a part.
enum class Share : std::uint8_t { kAll, kFourOfFive, kOneOfFive };

constexpr Share shareOf(Part part) {
  return part == Part::kTrain ? Share::kFourOfFive : Share::kOneOfFive;
}
// `index` counts from 0.
constexpr bool takes(Share share, std::int64_t index) {
  return share == Share::kAll || (index % 5 == 4) == (share == Share::kOneOfFive);
}

}  // namespace colla::data
