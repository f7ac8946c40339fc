// An archive ends with a record that says where its directory is. An entry of the directory has the
// sizes, checksum and name of a file, and where its local header is, behind which its bytes lie:
//
//   local header     "PK\3\4": 26 bytes, the last 4 the lengths of name and extra field, then these
//   directory entry  "PK\1\2": sizes at 20 and 24; lengths of name, extra and comment at 28, 30
//                    and 32; where the local header is at 42
//   end              "PK\5\6": entries at 10, the directory's place at 16, then a comment
//
// What is larger than 4 GiB has 2^32 - 1 in place of a number, and the number in the extra field 1
// (zip64).
#include "foreign/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "checkpoint/file.h"

namespace colla::foreign {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint32_t kLocal = 0x04034b50;
constexpr std::uint32_t kEntry = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::size_t kEndSize = 22;
constexpr std::uint64_t kIn64 = UINT32_MAX;
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;
// Deflate does not make anything smaller than this.
constexpr std::uint64_t kBestRatio = 1032;

struct Entry {
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0;
  std::uint64_t size = 0;
  std::uint64_t header = 0;
  std::string name;
};

std::string textOf(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Numbers that did not fit, in the order in which they are missing.
void readZip64(Bytes extra, Entry& entry) {
  ByteReader fields(extra);
  while (fields.ok() && fields.remaining() >= 4) {
    const auto kind = fields.number<std::uint16_t>();
    const Bytes body = fields.raw(fields.number<std::uint16_t>());
    if (kind != 1) continue;
    ByteReader numbers(body);
    for (std::uint64_t* const number : {&entry.size, &entry.packed, &entry.header}) {
      if (*number == kIn64) *number = numbers.number<std::uint64_t>();
    }
  }
}

std::optional<Entry> nextEntry(ByteReader& directory) {
  if (directory.number<std::uint32_t>() != kEntry) return std::nullopt;
  Entry entry;
  directory.raw(6);  // Versions and flags.
  entry.method = directory.number<std::uint16_t>();
  directory.raw(4);  // Time.
  entry.crc = directory.number<std::uint32_t>();
  entry.packed = directory.number<std::uint32_t>();
  entry.size = directory.number<std::uint32_t>();
  const auto nameLength = directory.number<std::uint16_t>();
  const auto extraLength = directory.number<std::uint16_t>();
  const auto commentLength = directory.number<std::uint16_t>();
  directory.raw(8);  // Disk and attributes.
  entry.header = directory.number<std::uint32_t>();
  entry.name = textOf(directory.raw(nameLength));
  readZip64(directory.raw(extraLength), entry);
  directory.raw(commentLength);
  return directory.ok() ? std::optional(std::move(entry)) : std::nullopt;
}

// What begins with the directory; nothing where there is no end record. A directory behind 4 GiB
// lies before its own end record for zip64, so that it is found by its size.
std::optional<Bytes> directoryIn(Bytes file) {
  if (file.size() < kEndSize) return std::nullopt;
  const std::size_t farthest = std::min<std::size_t>(file.size() - kEndSize, UINT16_MAX);
  for (std::size_t back = 0; back <= farthest; ++back) {
    const std::size_t at = file.size() - kEndSize - back;
    ByteReader end(file.subspan(at));
    if (end.number<std::uint32_t>() != kEnd) continue;
    end.raw(8);  // Disks and counts.
    const auto size = end.number<std::uint32_t>();
    std::uint64_t place = end.number<std::uint32_t>();
    constexpr std::size_t kEnds64 = 56 + 20;  // The end record of zip64, and what points to it.
    if (place == kIn64 && at >= kEnds64 + size) place = at - kEnds64 - size;
    if (place < at) return file.subspan(place, at - place);
  }
  return std::nullopt;
}

std::optional<std::vector<std::byte>> inflated(Bytes packed, std::uint64_t size) {
  if (size / kBestRatio > packed.size()) return std::nullopt;
  std::vector<std::byte> bytes(size);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return std::nullopt;
  std::size_t taken = 0;
  std::size_t made = 0;
  int result = Z_OK;
  while (result == Z_OK) {
    constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
    const std::size_t in = std::min(packed.size() - taken, kMost);
    const std::size_t out = std::min(bytes.size() - made, kMost);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + taken));
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data() + made);
    stream.avail_out = static_cast<uInt>(out);
    result = inflate(&stream, Z_NO_FLUSH);
    if (stream.avail_in == in && stream.avail_out == out && result == Z_OK) break;
    taken += in - stream.avail_in;
    made += out - stream.avail_out;
  }
  (void)inflateEnd(&stream);
  if (result != Z_STREAM_END || made != size) return std::nullopt;
  return bytes;
}

std::uint32_t crcOf(Bytes bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

Result<std::vector<std::byte>> readZipEntry(const std::string& path, std::string_view name) {
  COLLA_TRY_ASSIGN(const checkpoint::MappedFile mapped, checkpoint::MappedFile::open(path));
  const Bytes file = mapped.bytes();
  const auto wrong = [&path](std::string_view what) {
    return Status(StatusCode::kIo, fmt::format("{} {}", path, what));
  };
  const auto directory = directoryIn(file);
  if (!directory) return wrong("is no zip archive, or is cut off");
  ByteReader reader(*directory);
  std::optional<Entry> entry;
  do {
    entry = nextEntry(reader);
  } while (entry && entry->name != name);
  if (!entry) return wrong(fmt::format("has no entry {}", name));
  const std::string damaged = fmt::format("is damaged: its entry {} is not whole", name);
  if (entry->header > file.size()) return wrong(damaged);
  ByteReader local(file.subspan(entry->header));
  const bool begins = local.number<std::uint32_t>() == kLocal;
  local.raw(22);
  const auto nameLength = local.number<std::uint16_t>();
  const auto extraLength = local.number<std::uint16_t>();
  local.raw(nameLength);
  local.raw(extraLength);
  const Bytes packed = local.raw(entry->packed);
  if (!begins || !local.ok()) return wrong(damaged);
  std::vector<std::byte> bytes;
  if (entry->method == kStored && entry->size == packed.size()) {
    bytes.assign(packed.begin(), packed.end());
  } else if (entry->method == kDeflated) {
    auto made = inflated(packed, entry->size);
    if (!made) return wrong(damaged);
    bytes = *std::move(made);
  } else {
    return wrong(damaged);
  }
  if (crcOf(bytes) != entry->crc) return wrong(fmt::format("is damaged: CRC of {}", name));
  return bytes;
}

}  // namespace colla::foreign
