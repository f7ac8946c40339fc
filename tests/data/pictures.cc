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
std::string deepPngOf(const Image& image) {
  std::vector<std::uint8_t> pixels;
  // 255 of 255 are 65535 of 65535: both bytes are the same.
  for (const std::uint8_t value : interleaved(image, 3)) pixels.insert(pixels.end(), 2, value);
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp to, png_bytep bytes, std::size_t size) {
        static_cast<std::string*>(png_get_io_ptr(to))
            ->append(reinterpret_cast<const char*>(bytes), size);
      },
      [](png_structp) {});
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.size.width),
               static_cast<png_uint_32>(image.size.height), 16, PNG_COLOR_TYPE_RGB,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (std::int64_t y = 0; y < image.size.height; ++y) {
    png_write_row(png, pixels.data() + y * image.size.width * 6);
  }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

}  // namespace colla::data
