// Pickles from bytes of anybody, and the arrays in them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "data/image/pickle.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The first two bytes are known: what follows them is reached.
  std::vector<std::uint8_t> file{0x80, 0x02};
  file.insert(file.end(), data, data + size);
  const auto pickle = colla::data::Pickle::parse(std::as_bytes(std::span(file)), "fuzz");
  if (!pickle.ok()) {
    if (!pickle.status().message().starts_with("fuzz: byte ")) std::abort();
    return 0;
  }
  for (const char* key : {"data", "labels", "a", ""}) {
    const auto* value = pickle->find(key);
    if (value == nullptr) continue;
    const auto array = colla::data::arrayOf(*value);
    if (!array.ok()) continue;
    // All that is claimed to be there can be read.
    std::size_t count = 1;
    for (const std::int64_t length : array->shape) count *= length;
    if (count != array->bytes.size()) std::abort();
    std::uint32_t sum = 0;
    for (const std::byte byte : array->bytes) sum += std::to_integer<std::uint32_t>(byte);
    if (sum > count * 255U) std::abort();
  }
  return 0;
}
