#include "data/image/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "data/gzip.h"

namespace colla::data {
namespace {

constexpr auto kUnsignedByte = std::byte{0x08};

Result<std::size_t> readSome(GzipReader& reader, std::span<std::byte> result,
                             std::string_view name) {
  auto size = reader.read(result);
  if (size.ok()) return size;
  return Status(size.status().code(),
                fmt::format("{}: {}; fetch the file again", name, size.status().message()));
}

Status damaged(std::string_view name, std::string_view what) {
  return {StatusCode::kIo, fmt::format("{}: {}; fetch the file again", name, what)};
}

Result<std::vector<std::int64_t>> readHeader(GzipReader& reader, std::string_view name,
                                             int dimensions) {
  std::array<std::byte, 4> word{};
  COLLA_TRY_ASSIGN(std::size_t size, readSome(reader, word, name));
  if (size == 0) return damaged(name, "the file is empty");
  if (size < word.size()) return damaged(name, "the file ends inside of its header");
  const auto [zero, alsoZero, type, count] = word;
  if (zero != std::byte{0} || alsoZero != std::byte{0}) {
    return Status(StatusCode::kIo,
                  fmt::format("{}: not an IDX file: it starts with bytes {:02x} {:02x}, not 00 00",
                              name, std::to_integer<int>(zero), std::to_integer<int>(alsoZero)));
  }
  if (type != kUnsignedByte || std::to_integer<int>(count) != dimensions) {
    return Status(
        StatusCode::kIo,
        fmt::format("{}: holds elements of type 0x{:02x} in {} dimensions; expected "
                    "unsigned bytes (0x08) in {}: is it another file, renamed?",
                    name, std::to_integer<int>(type), std::to_integer<int>(count), dimensions));
  }
  std::vector<std::int64_t> shape;
  for (int i = 0; i < dimensions; ++i) {
    COLLA_TRY_ASSIGN(size, readSome(reader, word, name));
    if (size < word.size()) return damaged(name, "the file ends inside of its header");
    std::int64_t length = 0;
    for (const std::byte byte : word) length = length << 8 | std::to_integer<std::int64_t>(byte);
    shape.push_back(length);
  }
  return shape;
}

}  // namespace

Result<Array> parseIdx(std::span<const std::byte> file, std::string_view name, int dimensions) {
  GzipReader reader(file);
  COLLA_TRY_ASSIGN(std::vector<std::int64_t> shape, readHeader(reader, name, dimensions));
  const std::string claim = fmt::format("its header says {} bytes", fmt::join(shape, "x"));
  std::int64_t total = 1;
  for (const std::int64_t length : shape) {
    if (length == 0) return damaged(name, "it holds nothing: " + claim);
    if (__builtin_mul_overflow(total, length, &total)) {
      return damaged(name, claim + ", more than any file holds");
    }
  }

  // What is really there decides how much memory there is to be: it doubles until the file ends.
  // A file that is not compressed fits at once.
  auto room = std::min<std::int64_t>(total, static_cast<std::int64_t>(file.size()) * 4);
  COLLA_TRY_ASSIGN(Array array, Array::allocate(DataType::kUInt8, {room}));
  const std::int64_t header = reader.count();
  const std::int64_t each = total / shape.front();
  std::int64_t done = 0;
  while (true) {
    const auto size = reader.read(array.bytes().subspan(done));
    if (!size.ok()) {
      const std::int64_t record = (reader.count() - header) / each;
      return damaged(
          name,
          fmt::format("{}{}", size.status().message(),
                      record < shape.front() ? fmt::format(" inside of record {}", record) : ""));
    }
    done += static_cast<std::int64_t>(*size);
    if (done < room) {
      return damaged(name, fmt::format("truncated inside of record {}: {}, but {} are there",
                                       done / each, claim, done));
    }
    if (room == total) break;
    room = std::min(total, room * 2);
    COLLA_TRY_ASSIGN(Array larger, Array::allocate(DataType::kUInt8, {room}));
    std::memcpy(larger.data(), array.data(), done);
    array = std::move(larger);
  }
  std::byte more{};
  COLLA_TRY_ASSIGN(const std::size_t extra, readSome(reader, {&more, 1}, name));
  if (extra > 0) return damaged(name, claim + ", but more are there");
  return Array::view(array.owner(), array.data(), DataType::kUInt8, std::move(shape));
}

}  // namespace colla::data
