#include "foreign/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "checkpoint/file.h"
#include "foreign/damaged.h"
#include "foreign/messages.h"
#include "foreign/table.h"
#include "foreign/widen.h"

namespace colla::foreign {
namespace {

namespace fs = std::filesystem;
using checkpoint::ListedTensor;
using checkpoint::MappedFile;
using checkpoint::Shape;
using Bytes = std::span<const std::byte>;

// How a type of TensorFlow's becomes one of Colla's.
enum class Way {
  kSame,     // As it lies there; also under a different name.
  kWiden16,  // uint16 in int32.
  kWiden32,  // uint32 in int64.
  kComplex,  // Two numbers each.
  kText,
};
struct TypeRow {
  int number;  // In TensorFlow's DataType.
  DataType type;
  Way way = Way::kSame;
  std::string_view name{};  // Where it is not Colla's.
};
constexpr auto kTypes = std::to_array<TypeRow>({
    {1, DataType::kFloat32},
    {2, DataType::kFloat64},
    {3, DataType::kInt32},
    {4, DataType::kUInt8},
    {5, DataType::kInt16},
    {6, DataType::kInt8},
    {7, DataType::kUInt8, Way::kText, "string"},
    {8, DataType::kFloat32, Way::kComplex, "complex64"},
    {9, DataType::kInt64},
    {10, DataType::kBool},
    {11, DataType::kInt8, Way::kSame, "qint8"},
    {12, DataType::kUInt8, Way::kSame, "quint8"},
    {13, DataType::kInt32, Way::kSame, "qint32"},
    {14, DataType::kBFloat16},
    {15, DataType::kInt16, Way::kSame, "qint16"},
    {16, DataType::kInt32, Way::kWiden16, "quint16"},
    {17, DataType::kInt32, Way::kWiden16, "uint16"},
    {18, DataType::kFloat64, Way::kComplex, "complex128"},
    {19, DataType::kFloat16},
    {22, DataType::kInt64, Way::kWiden32, "uint32"},
    {23, DataType::kInt64, Way::kSame, "uint64"},
    {24, DataType::kUInt8, Way::kSame, "float8_e5m2"},
    {25, DataType::kUInt8, Way::kSame, "float8_e4m3fn"},
    {26, DataType::kUInt8, Way::kSame, "float8_e4m3fnuz"},
    {27, DataType::kUInt8, Way::kSame, "float8_e4m3b11fnuz"},
    {28, DataType::kUInt8, Way::kSame, "float8_e5m2fnuz"},
    {29, DataType::kInt8, Way::kSame, "int4"},
    {30, DataType::kUInt8, Way::kSame, "uint4"},
});

std::size_t storedSize(const TypeRow& row) {
  switch (row.way) {
    case Way::kWiden16:
      return sizeof(std::uint16_t);
    case Way::kWiden32:
      return sizeof(std::uint32_t);
    case Way::kComplex:
      return 2 * sizeOf(row.type);
    default:
      return sizeOf(row.type);
  }
}

// What tensors lie in: the files, and what had to be made of them.
struct BundleMemory {
  std::vector<MappedFile> shards;
  std::deque<std::vector<std::byte>> made;
};

// The checksum of a text tensor covers the lengths as numbers, their checksum, and the texts.
class LengthsCrc {
 public:
  void add(std::uint64_t length) {
    if (length <= UINT32_MAX) {
      extend(static_cast<std::uint32_t>(length));
    } else {
      extend(length);
    }
  }
  template <typename T>
  void extend(T number) {
    crc_ = crc32c(std::as_bytes(std::span(&number, 1)), crc_);
  }
  void extend(Bytes bytes) { crc_ = crc32c(bytes, crc_); }
  std::uint32_t masked() const { return std::rotr(crc_, 15) + 0xa282ead8U; }

 private:
  std::uint32_t crc_ = 0;
};

// Checks texts, which are their lengths, a checksum of these and then all of the letters. Returns
// the letters of a single text, and everything where there are several, which would otherwise run
// together.
Result<Bytes> checkedText(Bytes stored, std::uint64_t count, std::uint32_t expected) {
  LengthsCrc crc;
  std::size_t at = 0;
  std::uint64_t letters = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t length = 0;
    for (int shift = 0;; shift += 7) {
      if (at == stored.size() || shift > 63) return damaged("the lengths of its texts are damaged");
      const auto byte = std::to_integer<std::uint64_t>(stored[at++]);
      length |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    crc.add(length);
    if (length > stored.size()) return damaged("the lengths of its texts are damaged");
    letters += length;
    if (letters > stored.size()) return damaged("the lengths of its texts are damaged");
  }
  std::uint32_t lengthsCrc = 0;
  if (stored.size() - at != sizeof(lengthsCrc) + letters) {
    return damaged("the lengths of its texts do not fit its bytes");
  }
  std::memcpy(&lengthsCrc, stored.data() + at, sizeof(lengthsCrc));
  if (lengthsCrc != crc.masked()) return damaged("the lengths of its texts are damaged (CRC)");
  const Bytes text = stored.subspan(at + sizeof(lengthsCrc));
  crc.extend(lengthsCrc);
  crc.extend(text);
  if (crc.masked() != expected) return damaged("its data is damaged (CRC)");
  return count == 1 ? text : stored;
}

class BundleReader {
 public:
  explicit BundleReader(std::string prefix) : prefix_(std::move(prefix)) {}

  Result<checkpoint::Listing> read() {
    COLLA_TRY(readIndex());
    COLLA_TRY(openShards());
    checkpoint::Listing result{.path = prefix_, .tensors = {}, .memory = memory_};
    for (const auto& [name, entry] : entries_) {
      if (isSliceKey(name)) continue;
      auto tensor = tensorOf(name, entry);
      if (!tensor.ok()) {
        return tensor.status().withContext(fmt::format("{}: tensor {}", prefix_, name));
      }
      result.tensors.push_back(*std::move(tensor));
    }
    return result;
  }

 private:
  Status readIndex() {
    const std::string path = prefix_ + ".index";
    bool first = true;
    const auto take = [&](std::string_view key, std::string_view value) -> Status {
      if (std::exchange(first, false)) {
        if (!key.empty())
          return damaged(path + " is a table, but not of a checkpoint of TensorFlow's");
        const auto header = parseBundleHeader(value);
        if (!header.ok()) return header.status().withContext(path);
        header_ = *header;
        return {};
      }
      auto entry = parseBundleEntry(value);
      if (!entry.ok()) return entry.status().withContext(fmt::format("{}: {}", path, key));
      entries_.emplace(key, *std::move(entry));
      return {};
    };
    COLLA_TRY(readTable(path, take));
    return first ? damaged(path + " is empty") : Status();
  }

  Status openShards() {
    for (std::int32_t i = 0; i < header_.shards; ++i) {
      COLLA_TRY_ASSIGN(MappedFile shard, MappedFile::open(fmt::format("{}.data-{:05}-of-{:05}",
                                                                      prefix_, i, header_.shards)));
      bytesOfShards_ += shard.bytes().size();
      memory_->shards.push_back(std::move(shard));
    }
    return {};
  }

  Result<Bytes> storedBytes(const BundleEntry& entry) const {
    if (entry.shard >= header_.shards) {
      return damaged(
          fmt::format("it is said to be in shard {} of {}", entry.shard, header_.shards));
    }
    const Bytes shard = memory_->shards[entry.shard].bytes();
    if (entry.offset > shard.size() || entry.size > shard.size() - entry.offset) {
      return damaged(fmt::format("its data file ends before it: {:05}-of-{:05} has {} bytes",
                                 entry.shard, header_.shards, shard.size()));
    }
    return shard.subspan(entry.offset, entry.size);
  }

  // The bytes of numbers, which fit the shape and the checksum.
  Result<Bytes> checkedNumbers(const BundleEntry& entry, const TypeRow& row) const {
    COLLA_TRY_ASSIGN(const Bytes stored, storedBytes(entry));
    if (*elementsOf(entry.shape) * storedSize(row) != stored.size()) {
      return damaged(fmt::format("it has {} bytes, which do not fit its shape {}", stored.size(),
                                 checkpoint::toString(entry.shape)));
    }
    if (maskedCrc32c(stored) != entry.crc) return damaged("its data is damaged (CRC)");
    return stored;
  }

  Result<ListedTensor> tensorOf(const std::string& name, const BundleEntry& entry) {
    const auto* const row = std::ranges::find(kTypes, entry.type, &TypeRow::number);
    if (row == kTypes.end()) {  // Such as variants, of which each kind has a form of its own.
      COLLA_TRY_ASSIGN(const Bytes stored, storedBytes(entry));
      return ListedTensor{
          .tensor = {name, DataType::kUInt8, {static_cast<std::int64_t>(stored.size())}, stored},
          .foreignType = fmt::format("type {}", entry.type)};
    }
    ListedTensor listed{.tensor = {name, row->type, entry.shape, {}},
                        .foreignType = std::string(row->name)};
    checkpoint::TensorView& tensor = listed.tensor;
    if (row->way == Way::kText) {
      COLLA_TRY_ASSIGN(const Bytes stored, storedBytes(entry));
      COLLA_TRY_ASSIGN(tensor.bytes, checkedText(stored, *elementsOf(entry.shape), entry.crc));
      tensor.shape = {static_cast<std::int64_t>(tensor.bytes.size())};
      return listed;
    }
    Bytes stored;
    if (entry.slices.empty()) {
      COLLA_TRY_ASSIGN(stored, checkedNumbers(entry, *row));
    } else {
      COLLA_TRY_ASSIGN(stored, assembled(name, entry, *row));
    }
    if (row->way == Way::kWiden16) stored = keep(widened<std::uint16_t, std::int32_t>(stored));
    if (row->way == Way::kWiden32) stored = keep(widened<std::uint32_t, std::int64_t>(stored));
    if (row->way == Way::kComplex) tensor.shape.push_back(2);
    tensor.bytes = stored;
    return listed;
  }

  // A partitioned variable from its slices, which must cover it.
  Result<Bytes> assembled(const std::string& name, const BundleEntry& whole, const TypeRow& row) {
    const std::uint64_t elements = *elementsOf(whole.shape);
    if (elements * storedSize(row) > bytesOfShards_) {
      return damaged("it is larger than the files in which its slices are");
    }
    std::vector<std::byte> all(elements * storedSize(row));
    std::uint64_t covered = 0;
    for (const SliceExtents& slice : whole.slices) {
      const auto found = entries_.find(sliceKey(name, slice));
      if (found == entries_.end()) return damaged("one of its slices is missing");
      const BundleEntry& part = found->second;
      Shape begin;
      Shape shape;
      for (std::size_t i = 0; i < slice.size() && i < whole.shape.size(); ++i) {
        const bool full = slice[i].length == SliceExtent::kAll;
        begin.push_back(full ? 0 : slice[i].start);
        shape.push_back(full ? whole.shape[i] : slice[i].length);
        const bool inside = begin[i] >= 0 && begin[i] <= whole.shape[i] && shape[i] >= 0 &&
                            shape[i] <= whole.shape[i] - begin[i];
        if (!inside) return damaged("one of its slices is not inside of it");
      }
      if (slice.size() != whole.shape.size() || part.shape != shape || part.type != whole.type) {
        return damaged("one of its slices does not fit it");
      }
      COLLA_TRY_ASSIGN(const Bytes bytes, checkedNumbers(part, row));
      copySlice(bytes, begin, shape, whole.shape, storedSize(row), all);
      covered += *elementsOf(shape);
      if (covered > elements) break;
    }
    if (covered != elements) return damaged("its slices do not cover it");
    return keep(std::move(all));
  }

  // Row by row: what is one piece in both.
  static void copySlice(Bytes from, const Shape& begin, const Shape& shape, const Shape& whole,
                        std::size_t size, std::span<std::byte> to) {
    if (from.empty()) return;
    const std::size_t last = shape.empty() ? 0 : shape.size() - 1;
    const std::size_t row = shape.empty() ? size : static_cast<std::size_t>(shape[last]) * size;
    Shape index(shape.size());
    for (; !from.empty(); from = from.subspan(row)) {
      std::size_t place = 0;
      for (std::size_t i = 0; i < shape.size(); ++i) {
        place = place * static_cast<std::size_t>(whole[i]) +
                static_cast<std::size_t>(begin[i] + index[i]);
      }
      std::ranges::copy(from.first(row), to.subspan(place * size).begin());
      for (std::size_t i = last; i-- > 0;) {  // The next row, as a counter turns.
        if (++index[i] < shape[i]) break;
        index[i] = 0;
      }
    }
  }

  Bytes keep(std::vector<std::byte> bytes) { return memory_->made.emplace_back(std::move(bytes)); }

  std::string prefix_;
  BundleHeader header_;
  std::map<std::string, BundleEntry, std::less<>> entries_;
  std::shared_ptr<BundleMemory> memory_ = std::make_shared<BundleMemory>();
  std::uint64_t bytesOfShards_ = 0;
};

bool exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// What TensorFlow's file `checkpoint` in a directory says: model_checkpoint_path: "model.ckpt-100"
std::optional<std::string> newestIn(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_regular_file(directory / "checkpoint", error)) return std::nullopt;
  std::ifstream file(directory / "checkpoint");
  std::string line;
  constexpr std::string_view kField = "model_checkpoint_path: \"";
  while (std::getline(file, line)) {
    if (!line.starts_with(kField) || !line.ends_with('"') || line.size() == kField.size()) continue;
    // A path may be absolute.
    return (directory / line.substr(kField.size(), line.size() - kField.size() - 1)).string();
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> bundlePrefix(const std::string& text) {
  constexpr std::string_view kIndex = ".index";
  if (text.ends_with(kIndex) && exists(text)) return text.substr(0, text.size() - kIndex.size());
  const auto data = text.rfind(".data-");
  if (data != std::string::npos && text.find('/', data) == std::string::npos && exists(text)) {
    return text.substr(0, data);
  }
  if (exists(text + std::string(kIndex))) return text;
  return newestIn(text);
}

Result<checkpoint::Listing> openBundle(const std::string& prefix) {
  return BundleReader(prefix).read();
}

}  // namespace colla::foreign
