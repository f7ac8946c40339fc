// Why a run ends before its last step: what workers agree on while they exchange gradients.
#pragma once

#include <cstdint>

namespace colla::ps {

// A later one is stronger: of several workers' reasons the strongest counts.
enum class Stop : std::uint8_t {
  kNo = 0,
  kRequested = 1,    // By the program: the run has reached what it was for.
  kInterrupted = 2,  // By Ctrl-C or SIGTERM.
};

// Of a byte that came from elsewhere.
constexpr Stop stopOf(std::uint8_t byte) {
  constexpr auto kStrongest = static_cast<std::uint8_t>(Stop::kInterrupted);
  return static_cast<Stop>(byte < kStrongest ? byte : kStrongest);
}

// A reason as a number that can be summed over slices, of which there are fewer than kOneInterrupt.
inline constexpr float kOneInterrupt = 1 << 20;
constexpr float toNumber(Stop stop) {
  return stop == Stop::kInterrupted ? kOneInterrupt : static_cast<float>(stop);
}
constexpr Stop strongestOf(double sum) {
  if (sum >= kOneInterrupt) return Stop::kInterrupted;
  return sum > 0 ? Stop::kRequested : Stop::kNo;
}

}  // namespace colla::ps
