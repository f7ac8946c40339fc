// The header of a safetensors file, from bytes of anybody.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace {

using namespace colla::checkpoint;

// What was understood lies inside the file, and survives the way out and back.
void check(std::span<const std::byte> file, std::uint64_t size) {
  const auto header = parseHeader(file, size);
  if (!header.ok()) return;
  std::vector<TensorView> tensors;
  for (const TensorPlace& tensor : header->tensors) {
    if (tensor.begin > tensor.end || tensor.end > size - header->dataBegin) std::abort();
    // Of no use but to be counted: the data need not be there.
    const std::span<const std::byte> bytes(file.data(), tensor.end - tensor.begin);
    tensors.push_back({tensor.name, tensor.type, tensor.shape, bytes});
  }
  const auto encoded = encodeHeader(tensors, header->metadata);
  if (!encoded.ok() || encoded->order.size() != tensors.size()) std::abort();
}

}  // namespace

// The input as a whole file; and as the JSON of a header with any amount of data behind it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  check(input, size);
  if (size < 2) return 0;
  const std::uint64_t length = size - 2;
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  file.append(reinterpret_cast<const char*>(data) + 2, length);
  const std::uint64_t behind = data[0] + (static_cast<std::uint64_t>(data[1]) << 8);
  check(std::as_bytes(std::span(file)), file.size() + behind);
  return 0;
}
