// The header of the safetensors format: 8 bytes with its length, then JSON that says for each
// tensor type, shape and where its bytes are in the data that follows.
//
// Pure functions on bytes. What they accept is what the format's own reader accepts, for the types
// that Colla has: data without gaps, overlaps or bytes that belong to nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/tensor_view.h"
#include "colla/status.h"

namespace colla::checkpoint {

// The format's own limit for the JSON.
inline constexpr std::uint64_t kMaxHeader = 100'000'000;
// In the files that we write, data starts at a multiple of this.
inline constexpr std::size_t kDataAlignment = 64;

using Metadata = std::map<std::string, std::string>;

// A tensor's place in the data behind the header.
struct TensorPlace {
  std::string name;
  DataType type = DataType::kFloat32;
  Shape shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct Header {
  std::vector<TensorPlace> tensors;  // In the order of their data.
  Metadata metadata;
  std::uint64_t dataBegin = 0;  // In the file.
};

// A header, and the order in which the bytes of the tensors must follow it.
struct EncodedHeader {
  std::string bytes;
  std::vector<std::size_t> order;
};

// The bytes for `tensors`, wide elements first and then by name, so that each tensor is aligned to
// its elements and the same tensors give the same file. Refuses what could not be read back: names
// that occur twice or are not UTF-8, shapes that do not fit the bytes.
Result<EncodedHeader> encodeHeader(std::span<const TensorView> tensors,
                                   const Metadata& metadata = {});

// Parses the header of a file of `fileSize` bytes that begins with `start`, which holds the whole
// header or all of the file. Allocates in proportion to what is there, not to what it claims.
Result<Header> parseHeader(std::span<const std::byte> start, std::uint64_t fileSize);

}  // namespace colla::checkpoint
