// The messages, as far as we read them:
//
//   BundleHeaderProto  { int32 num_shards = 1; Endianness endianness = 2; }     0 is little-endian
//   BundleEntryProto   { DataType dtype = 1; TensorShapeProto shape = 2; int32 shard_id = 3;
//                        int64 offset = 4; int64 size = 5; fixed32 crc32c = 6;
//                        repeated TensorSliceProto slices = 7; }
//   TensorShapeProto   { repeated Dim { int64 size = 1; } dim = 2; bool unknown_rank = 3; }
//   TensorSliceProto   { repeated Extent { int64 start = 1; int64 length = 2; } extent = 1; }
//
// The key of a slice is a list of numbers and a text, written so that keys sort as what they
// stand for: 0, the name, the number of dimensions, then start and length of each.
#include "foreign/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <protozero/exception.hpp>
#include <protozero/pbf_reader.hpp>

#include "foreign/damaged.h"

namespace colla::foreign {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

enum HeaderField : protozero::pbf_tag_type { kShards = 1, kEndianness = 2 };
enum EntryField : protozero::pbf_tag_type {
  kType = 1,
  kShape = 2,
  kShard = 3,
  kOffset = 4,
  kSize = 5,
  kCrc = 6,
  kSlices = 7
};
enum ShapeField : protozero::pbf_tag_type { kDimension = 2 };
constexpr protozero::pbf_tag_type kFirst = 1;
constexpr protozero::pbf_tag_type kLength = 2;

// TensorFlow's own limit.
constexpr std::size_t kMostDimensions = 254;

pbf_reader readerOf(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

Status readShape(pbf_reader message, checkpoint::Shape& shape) {
  while (message.next()) {
    if (message.tag() != kDimension || message.wire_type() != pbf_wire_type::length_delimited) {
      message.skip();
      continue;
    }
    pbf_reader dimension = message.get_message();
    std::int64_t size = 0;
    while (dimension.next()) {
      if (dimension.tag() == kFirst && dimension.wire_type() == pbf_wire_type::varint) {
        size = dimension.get_int64();
      } else {
        dimension.skip();
      }
    }
    if (size < 0) return damaged("a dimension is negative");
    if (shape.size() == kMostDimensions) return damaged("it has too many dimensions");
    shape.push_back(size);
  }
  return {};
}

SliceExtents readSlice(pbf_reader message) {
  SliceExtents extents;
  while (message.next(kFirst, pbf_wire_type::length_delimited)) {
    pbf_reader part = message.get_message();
    SliceExtent& extent = extents.emplace_back();
    while (part.next()) {
      if (part.wire_type() != pbf_wire_type::varint) {
        part.skip();
      } else if (part.tag() == kFirst) {
        extent.start = part.get_int64();
      } else if (part.tag() == kLength) {
        extent.length = part.get_int64();
      } else {
        part.skip();
      }
    }
  }
  return extents;
}

Status readEntry(pbf_reader message, BundleEntry& entry) {
  while (message.next()) {
    const auto wire = message.wire_type();
    if (wire == pbf_wire_type::varint) {
      switch (message.tag()) {
        case kType:
          entry.type = message.get_int32();
          continue;
        case kShard:
          entry.shard = message.get_int32();
          continue;
        case kOffset:
          entry.offset = message.get_uint64();
          continue;
        case kSize:
          entry.size = message.get_uint64();
          continue;
        default:
          break;
      }
    } else if (wire == pbf_wire_type::length_delimited && message.tag() == kShape) {
      COLLA_TRY(readShape(message.get_message(), entry.shape));
      continue;
    } else if (wire == pbf_wire_type::length_delimited && message.tag() == kSlices) {
      entry.slices.push_back(readSlice(message.get_message()));
      continue;
    } else if (wire == pbf_wire_type::fixed32 && message.tag() == kCrc) {
      entry.crc = message.get_fixed32();
      continue;
    }
    message.skip();
  }
  return {};
}

// One byte that says how many follow, then these, the highest first.
void appendCount(std::string& key, std::uint64_t value) {
  const int bytes = static_cast<int>(std::bit_width(value) + 7) / 8;
  key += static_cast<char>(bytes);
  for (int i = bytes; i-- > 0;) key += static_cast<char>(value >> (8 * i));
}

// Ends with 0 1; 0 and 255 in the text are followed by the other one.
void appendText(std::string& key, std::string_view text) {
  for (const char c : text) {
    key += c;
    if (c == '\0') key += '\xff';
    if (c == '\xff') key += '\0';
  }
  key += '\0';
  key += '\x01';
}

// In n bytes there is room for 7 n - 1 bits and the sign: as many bytes of the number as it takes,
// the highest first, of which the first n bits are turned, so that they say n and longer ones sort
// behind.
void appendSigned(std::string& key, std::int64_t value) {
  const auto magnitude = static_cast<std::uint64_t>(value < 0 ? ~value : value);
  const int bytes = static_cast<int>(std::bit_width(magnitude)) / 7 + 1;
  for (int i = 0; i < bytes; ++i) {
    const int shift = 8 * (bytes - 1 - i);
    const auto byte = static_cast<std::uint8_t>(value >> std::min(shift, 63));
    const int turned = std::clamp(bytes - 8 * i, 0, 8);
    key += static_cast<char>(byte ^ static_cast<std::uint8_t>(0xff00 >> turned));
  }
}

}  // namespace

Result<BundleHeader> parseBundleHeader(std::string_view bytes) {
  BundleHeader header;
  try {
    pbf_reader message = readerOf(bytes);
    while (message.next()) {
      if (message.wire_type() != pbf_wire_type::varint) {
        message.skip();
      } else if (message.tag() == kShards) {
        header.shards = message.get_int32();
      } else if (message.tag() == kEndianness) {
        if (message.get_int32() != 0) return damaged("it was written by a big-endian machine");
      } else {
        message.skip();
      }
    }
  } catch (const protozero::exception& error) {
    return damaged(fmt::format("its header is no message ({})", error.what()));
  }
  if (header.shards < 1) return damaged(fmt::format("its header says {} shards", header.shards));
  return header;
}

Result<BundleEntry> parseBundleEntry(std::string_view bytes) {
  BundleEntry entry;
  try {
    COLLA_TRY(readEntry(readerOf(bytes), entry));
  } catch (const protozero::exception& error) {
    return damaged(fmt::format("its entry is no message ({})", error.what()));
  }
  const auto large = static_cast<std::uint64_t>(INT64_MAX);
  if (entry.shard < 0 || entry.offset > large || entry.size > large || !elementsOf(entry.shape)) {
    return damaged("its entry has impossible numbers");
  }
  return entry;
}

std::string sliceKey(std::string_view name, const SliceExtents& slice) {
  std::string key;
  appendCount(key, 0);
  appendText(key, name);
  appendCount(key, slice.size());
  for (const SliceExtent& extent : slice) {
    appendSigned(key, extent.start);
    appendSigned(key, extent.length);
  }
  return key;
}

std::optional<std::uint64_t> elementsOf(const checkpoint::Shape& shape) {
  std::uint64_t count = 1;
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(size), &count))
      return std::nullopt;
  }
  // So that they can be counted in bytes as well.
  return count <= static_cast<std::uint64_t>(INT64_MAX) / 16 ? std::optional(count) : std::nullopt;
}

}  // namespace colla::foreign
