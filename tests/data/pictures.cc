#include "data/pictures.h"

#include <png.h>

// clang-format off: jpeglib.h needs <cstdio> before it.
#include <jpeglib.h>

#include <cstdio>
// clang-format on
#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace colla::data {
namespace {

// Pixel by pixel, the first `channels` of the image's and `extra` behind them.
std::vector<std::uint8_t> interleaved(const Image& image, int channels, int extra = -1) {
  std::vector<std::uint8_t> pixels;
  for (std::int64_t i = 0; i < image.size.pixels(); ++i) {
    for (int channel = 0; channel < channels; ++channel) {
      pixels.push_back(image.planes[channel * image.size.pixels() + i]);
    }
    if (extra >= 0) pixels.push_back(static_cast<std::uint8_t>(extra));
  }
  return pixels;
}

std::string writePng(const Image& image, png_uint_32 format,
                     const std::vector<std::uint8_t>& pixels) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.height = static_cast<png_uint_32>(image.size.height);
  png.width = static_cast<png_uint_32>(image.size.width);
  png.format = format;
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(png), '\0');
  png_alloc_size_t size = file.size();
  if (png_image_write_to_memory(&png, file.data(), &size, 0, pixels.data(), 0, nullptr) == 0) {
    throw std::runtime_error(png.message);
  }
  file.resize(size);
  return file;
}

}  // namespace

Image plain(ImageSize size, int red, int green, int blue) {
  Image image;
  image.size = size;
  for (const int value : {red, green, blue}) {
    image.planes.insert(image.planes.end(), size.pixels(), static_cast<std::uint8_t>(value));
  }
  return image;
}

std::string jpegOf(const Image& image, const JpegOptions& options) {
  const int channels = options.grey ? 1 : options.cmyk ? 4 : 3;
  std::vector<std::uint8_t> pixels =
      options.cmyk ? interleaved(image, 3, 255) : interleaved(image, channels);
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_height = static_cast<JDIMENSION>(image.size.height);
  info.image_width = static_cast<JDIMENSION>(image.size.width);
  info.input_components = channels;
  info.in_color_space = options.grey ? JCS_GRAYSCALE : options.cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  if (options.cmyk) info.write_Adobe_marker = TRUE;
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_set_quality(&info, options.quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = pixels.data() + info.next_scanline * image.size.width * channels;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char*>(memory), size);
  std::free(memory);
  return file;
}

std::string pngOf(const Image& image) {
  return writePng(image, PNG_FORMAT_RGB, interleaved(image, 3));
}
std::string greyPngOf(const Image& image) {
  return writePng(image, PNG_FORMAT_GRAY, interleaved(image, 1));
}
std::string transparentPngOf(const Image& image, int alpha) {
  return writePng(image, PNG_FORMAT_RGBA, interleaved(image, 3, alpha));
}

}  // namespace colla::data
