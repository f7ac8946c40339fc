// The messages in the index of a checkpoint of TensorFlow's, and the keys of parts of variables.
//
// Pure functions on bytes. Errors say what is wrong without a name in front.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tensor_view.h"
#include "colla/status.h"

namespace colla::foreign {

// The value of the empty key.
struct BundleHeader {
  std::int32_t shards = 0;
};
// Refuses data of big-endian machines.
Result<BundleHeader> parseBundleHeader(std::string_view bytes);

// A part of a partitioned variable: of each dimension where it begins and how far it goes.
struct SliceExtent {
  std::int64_t start = 0;
  std::int64_t length = kAll;
  static constexpr std::int64_t kAll = -1;
};
using SliceExtents = std::vector<SliceExtent>;

// The value of a tensor's name.
struct BundleEntry {
  int type = 0;  // TensorFlow's number.
  checkpoint::Shape shape;
  std::int32_t shard = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t crc = 0;  // Masked.
  // Not empty for a partitioned variable, whose bytes are those of its slices.
  std::vector<SliceExtents> slices;
};
// Numbers are not negative in what it returns, and the elements of the shape can be counted.
Result<BundleEntry> parseBundleEntry(std::string_view bytes);

// The key of the entry of a slice.
std::string sliceKey(std::string_view name, const SliceExtents& slice);
// Names of tensors do not begin with a zero; keys of slices do.
inline bool isSliceKey(std::string_view key) { return key.starts_with('\0'); }

// How many elements a shape has; nothing where that does not fit into a number.
std::optional<std::uint64_t> elementsOf(const checkpoint::Shape& shape);

}  // namespace colla::foreign
