// Pictures that tests make, as JPEG and PNG files.
#pragma once

#include <string>

#include "data/image/image.h"

namespace colla::data {

// All pixels of one colour.
Image plain(ImageSize size, int red, int green, int blue);

struct JpegOptions {
  int quality = 95;
  bool progressive = false;
  bool grey = false;  // One channel, the image's first.
  bool cmyk = false;  // As Adobe writes it: the image's channels, and no black.
};
std::string jpegOf(const Image& image, const JpegOptions& options = {});
std::string pngOf(const Image& image);
// PNG with one channel (the image's first) or with an alpha channel of that value.
std::string greyPngOf(const Image& image);
std::string transparentPngOf(const Image& image, int alpha);
// PNG with 16 bits for each colour, and no word on what they mean (neither gAMA nor sRGB).
std::string deepPngOf(const Image& image);

}  // namespace colla::data
