// JPEG and PNG images as bytes of red, green and blue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "colla/status.h"
#include "data/image/image.h"

namespace colla::data {

// Larger images are refused before memory is taken for them.
inline constexpr std::int64_t kMaxPixels = std::int64_t{1} << 26;

// The image in `file`, told by its first bytes, in three channels: grey becomes red, green and
// blue, and what is transparent black. kIo, with `name`, for a file that is damaged or ends too
// early, or is neither of the two.
Result<Image> decodeImage(std::span<const std::byte> file, std::string_view name,
                          std::int64_t maxPixels = kMaxPixels);

// Whether a file of that name is taken for an image: .jpg, .jpeg or .png, in any case.
bool hasImageName(std::string_view name);

// Row `y` of `image`, whose pixels come as red, green, blue, red, …
void setRow(Image& image, std::int64_t y, const std::uint8_t* pixels);

// The two behind decodeImage(); their errors have no name in front.
Result<Image> decodeJpeg(std::span<const std::byte> file, std::int64_t maxPixels);
Result<Image> decodePng(std::span<const std::byte> file, std::int64_t maxPixels);

}  // namespace colla::data
