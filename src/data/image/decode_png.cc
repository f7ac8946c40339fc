#include <fmt/format.h>
#include <png.h>

#include <memory>
#include <vector>

#include "data/image/decode.h"

namespace colla::data {
namespace {

struct Free {
  void operator()(png_image* image) const { png_image_free(image); }
};

Status refused(const png_image& image) {
  return {StatusCode::kIo, fmt::format("a damaged PNG image ({})", image.message)};
}

}  // namespace

Result<Image> decodePng(std::span<const std::byte> file, std::int64_t maxPixels) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, Free> guard(&png);
  if (png_image_begin_read_from_memory(&png, file.data(), file.size()) == 0) return refused(png);
  // Unless it is told, libpng takes 16 bits for linear and those of 8 for sRGB; writers use both
  // for the same colours.
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;

  Image image;
  image.size = {png.height, png.width};
  if (image.size.pixels() > maxPixels) {
    return {StatusCode::kIo, fmt::format("an image of {}x{} pixels is too large", image.size.height,
                                         image.size.width)};
  }
  png.format = PNG_FORMAT_RGB;
  std::vector<std::uint8_t> pixels(PNG_IMAGE_SIZE(png));
  const png_color black{};
  if (png_image_finish_read(&png, &black, pixels.data(), 0, nullptr) == 0) return refused(png);

  image.planes.resize(image.view().bytes());
  for (std::int64_t y = 0; y < image.size.height; ++y) {
    setRow(image, y, pixels.data() + y * image.size.width * image.channels);
  }
  return image;
}

}  // namespace colla::data
