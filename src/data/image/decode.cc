#include "data/image/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace colla::data {
namespace {

bool startsWith(std::span<const std::byte> file, std::string_view magic) {
  return file.size() >= magic.size() &&
         std::ranges::equal(file.first(magic.size()), std::as_bytes(std::span(magic)));
}

}  // namespace

Result<Image> decodeImage(std::span<const std::byte> file, std::string_view name,
                          std::int64_t maxPixels) {
  const auto decode = startsWith(file, "\xff\xd8")            ? decodeJpeg
                      : startsWith(file, "\x89PNG\r\n\x1a\n") ? decodePng
                                                              : nullptr;
  if (decode == nullptr) {
    return {StatusCode::kIo, fmt::format("{}: {}", name,
                                         file.empty() ? "the file is empty"
                                                      : "this is neither a JPEG nor a PNG image")};
  }
  auto image = decode(file, maxPixels);
  if (image.ok()) return image;
  return Status(image.status().code(), fmt::format("{}: {}", name, image.status().message()));
}

bool hasImageName(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char letter) { return std::tolower(letter); });
  return lower.ends_with(".jpg") || lower.ends_with(".jpeg") || lower.ends_with(".png");
}

void setRow(Image& image, std::int64_t y, const std::uint8_t* pixels) {
  const std::int64_t width = image.size.width;
  std::uint8_t* const red = image.planes.data() + y * width;
  std::uint8_t* const green = red + image.size.pixels();
  std::uint8_t* const blue = green + image.size.pixels();
  for (std::int64_t x = 0; x < width; ++x) {
    red[x] = pixels[3 * x];
    green[x] = pixels[3 * x + 1];
    blue[x] = pixels[3 * x + 2];
  }
}

}  // namespace colla::data
