// IDX files, plain and compressed, from bytes of anybody. The first byte says how many dimensions
// are expected, and whether to put a header's magic right, so that what follows is reached.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "data/image/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const int dimensions = data[0] % 2 == 0 ? 1 : 3;
  std::vector<std::uint8_t> file(data + 1, data + size);
  if (data[0] % 4 < 2 && file.size() >= 4) {
    file[0] = file[1] = 0;
    file[2] = 8;
    file[3] = static_cast<std::uint8_t>(dimensions);
  }
  const auto array = colla::data::parseIdx(std::as_bytes(std::span(file)), "fuzz", dimensions);
  if (!array.ok()) {
    // An error that names no file is no help.
    if (!array.status().message().starts_with("fuzz: ")) std::abort();
    return 0;
  }
  // All that is claimed to be there can be read.
  std::uint32_t sum = 0;
  for (const std::uint8_t byte : array->as<std::uint8_t>()) sum += byte;
  if (array->count() == 0 || sum > array->count() * 255U) std::abort();
  return 0;
}
