// COCO's annotations from bytes of anybody.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "data/record/coco.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto images = colla::data::parseCoco(std::as_bytes(std::span(data, size)), "fuzz");
  if (!images.ok()) {
    if (!images.status().message().starts_with("fuzz: ")) std::abort();
    return 0;
  }
  for (const auto& image : *images) {
    if (image.file.empty() || image.file.front() == '/') std::abort();
  }
  return 0;
}
