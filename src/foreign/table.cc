#include "foreign/table.h"

#include <fmt/format.h>
#include <leveldb/env.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/table.h>

#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "base/bytes.h"
#include "checkpoint/file.h"

namespace colla::foreign {
namespace {

// What stands at the end of a table: where two blocks are, padded, then the mark of the format.
constexpr std::size_t kFooter = 48;
constexpr std::uint64_t kMark = 0xdb4775248b80fb57;
// Behind every block: how it is compressed, and its checksum.
constexpr std::size_t kBlockEnd = 5;

// The mapped file as LevelDB wants it. The library believes the sizes of blocks, and adds the size
// of their ends without looking whether that is too much: what cannot be a block is refused here.
class Memory final : public leveldb::RandomAccessFile {
 public:
  explicit Memory(std::span<const std::byte> bytes) : bytes_(bytes) {}

  leveldb::Status Read(std::uint64_t offset, std::size_t size, leveldb::Slice* result,
                       char* /*scratch*/) const override {
    if (size < kBlockEnd || offset > bytes_.size() || size > bytes_.size() - offset) {
      *result = {};
      return leveldb::Status::Corruption("a block that is not in the file");
    }
    *result = {reinterpret_cast<const char*>(bytes_.data()) + offset, size};
    return {};
  }

 private:
  std::span<const std::byte> bytes_;
};

// No checksum covers the footer, and LevelDB takes as much memory as it says that a block has.
bool footerFits(std::span<const std::byte> file) {
  if (file.size() < kFooter) return false;
  ByteReader reader(file.last(kFooter));
  const auto handles = reader.raw(kFooter - sizeof(kMark));
  if (reader.number<std::uint64_t>() != kMark) return false;
  std::size_t at = 0;
  for (int number = 0; number < 4; ++number) {  // Offset and size, twice.
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      if (at == handles.size() || shift > 63) return false;
      const auto byte = std::to_integer<std::uint64_t>(handles[at++]);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    if (value > file.size()) return false;
  }
  return true;
}

Status read(const std::string& path, std::span<const std::byte> bytes,
            const std::function<Status(std::string_view, std::string_view)>& take) {
  const auto failure = [&path](const leveldb::Status& status) {
    return Status(StatusCode::kIo, fmt::format("{} is damaged ({})", path, status.ToString()));
  };
  const Memory memory(bytes);
  leveldb::Options options;
  options.paranoid_checks = true;
  leveldb::Table* opened = nullptr;
  // It does not write through the pointer.
  const leveldb::Status status =
      leveldb::Table::Open(options, const_cast<Memory*>(&memory), bytes.size(), &opened);
  const std::unique_ptr<leveldb::Table> table(opened);
  if (!status.ok()) return failure(status);
  leveldb::ReadOptions reading;
  reading.verify_checksums = true;
  reading.fill_cache = false;
  const std::unique_ptr<leveldb::Iterator> entry(table->NewIterator(reading));
  for (entry->SeekToFirst(); entry->Valid(); entry->Next()) {
    const leveldb::Slice key = entry->key();
    const leveldb::Slice value = entry->value();
    COLLA_TRY(take({key.data(), key.size()}, {value.data(), value.size()}));
  }
  return entry->status().ok() ? Status() : failure(entry->status());
}

}  // namespace

Status readTable(const std::string& path,
                 const std::function<Status(std::string_view, std::string_view)>& take) {
  COLLA_TRY_ASSIGN(const checkpoint::MappedFile file, checkpoint::MappedFile::open(path));
  if (!footerFits(file.bytes())) {
    return {StatusCode::kIo,
            fmt::format("{} is no table of LevelDB's format, or is cut off", path)};
  }
  try {
    return read(path, file.bytes(), take);
  } catch (const std::bad_alloc&) {
    return {StatusCode::kIo,
            fmt::format("{} is damaged (a block that is larger than memory)", path)};
  }
}

}  // namespace colla::foreign
