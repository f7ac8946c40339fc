#include "bench/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

namespace colla::bench {
namespace {

constexpr std::array<std::pair<char, int>, 3> kSuffixes = {{{'G', 30}, {'M', 20}, {'K', 10}}};
constexpr std::size_t kLeast = sizeof(float);
constexpr std::size_t kMost = std::size_t{4} << 30;  // MPI counts elements by int.

}  // namespace

Result<std::size_t> parseBytes(std::string_view text) {
  std::size_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  int shift = 0;
  const char* rest = end;
  for (const auto& [letter, bits] : kSuffixes) {
    if (rest != last && *rest == letter) {
      shift = bits;
      ++rest;
      break;
    }
  }
  if (error != std::errc() || rest != last) {
    return {StatusCode::kInvalidArgument,
            fmt::format("\"{}\" is not a size; write bytes as 1000, 64K, 4M or 1G", text)};
  }
  if (value > (kMost >> shift) || (value << shift) < kLeast) {
    return {StatusCode::kInvalidArgument,
            fmt::format("size {} is out of range: from {} to {} bytes", text, kLeast,
                        bytesText(kMost))};
  }
  return value << shift;
}

std::string bytesText(std::size_t bytes) {
  for (const auto& [letter, bits] : kSuffixes) {
    const std::size_t unit = std::size_t{1} << bits;
    if (bytes >= unit && bytes % unit == 0) return fmt::format("{}{}", bytes / unit, letter);
  }
  return fmt::format("{}", bytes);
}

std::string numberText(double value) {
  if (value < 0.0995) return fmt::format("{:.2g}", value);
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string durationText(double seconds) {
  if (seconds < 0.9995e-6) return numberText(seconds * 1e9) + " ns";
  if (seconds < 0.9995e-3) return numberText(seconds * 1e6) + " us";
  if (seconds < 0.9995) return numberText(seconds * 1e3) + " ms";
  return numberText(seconds) + " s";
}

}  // namespace colla::bench
