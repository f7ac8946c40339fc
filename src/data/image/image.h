// Images as bytes: one plane per channel, row by row.
#pragma once

#include <cstdint>
#include <vector>

namespace colla::data {

inline constexpr int kColourChannels = 3;  // Red, green and blue.

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t pixels() const { return height * width; }
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

// Read only, not owned.
struct ImageView {
  const std::uint8_t* planes = nullptr;
  int channels = kColourChannels;
  ImageSize size;
  std::int64_t bytes() const { return channels * size.pixels(); }
};

struct Image {
  std::vector<std::uint8_t> planes;
  int channels = kColourChannels;
  ImageSize size;
  ImageView view() const { return {planes.data(), channels, size}; }
};

}  // namespace colla::data
