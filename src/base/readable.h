// Numbers as people read them.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>

namespace colla {

// 89610 -> "89,610".
inline std::string grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

// "5 s", "0.3 s": to a tenth.
inline std::string inSeconds(std::chrono::duration<double> time) {
  return fmt::format("{} s", std::round(time.count() * 10) / 10);
}

}  // namespace colla
