// Sizes and durations as people write and read them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "colla/status.h"

namespace colla::bench {

// "4M" is 4 * 1024 * 1024; suffixes K, M and G, or none. From 4 bytes (one float32) to 4 G.
Result<std::size_t> parseBytes(std::string_view text);

// The shortest exact form: "4M", "1000".
std::string bytesText(std::size_t bytes);

// Three digits and a unit: "412 ns", "1.35 us", "62.1 ms".
std::string durationText(double seconds);

// "0.0013", "0.71", "13.5", "672": two or three digits, which is what is there to read.
std::string numberText(double value);

}  // namespace colla::bench
