// Numbers of types that Colla has not, in a wider one that has all of their values.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace colla::foreign {

template <typename From, typename To>
std::vector<std::byte> widened(std::span<const std::byte> bytes) {
  std::vector<std::byte> wide(bytes.size() / sizeof(From) * sizeof(To));
  for (std::size_t i = 0; i < bytes.size() / sizeof(From); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    const To result = value;
    std::memcpy(wide.data() + i * sizeof(To), &result, sizeof(To));
  }
  return wide;
}

}  // namespace colla::foreign
