// JPEG and PNG images from bytes of anybody.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "data/image/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::vector<std::uint8_t> file;
  // The first byte says whether to put a magic number in front, so that what follows is reached.
  if (data[0] % 4 == 0) file = {0xff, 0xd8, 0xff};
  if (data[0] % 4 == 1) file = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  file.insert(file.end(), data + 1, data + size);
  constexpr std::int64_t kMost = 1 << 16;  // Larger ones would only be slow.
  const auto image = colla::data::decodeImage(std::as_bytes(std::span(file)), "fuzz", kMost);
  if (!image.ok()) {
    if (!image.status().message().starts_with("fuzz: ")) std::abort();
    return 0;
  }
  const auto pixels = static_cast<std::size_t>(image->size.pixels());
  if (pixels == 0 || pixels > kMost || image->planes.size() != 3 * pixels) std::abort();
  return 0;
}
