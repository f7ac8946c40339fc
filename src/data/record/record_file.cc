#include "data/record/record_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "data/file.h"

namespace colla::data {
namespace {

constexpr std::int64_t kHeader = 12;
constexpr std::int64_t kFooter = 4;

// As much as there is of it.
Result<std::size_t> readAt(int file, std::int64_t offset, std::span<std::byte> bytes,
                           const std::string& path) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(file, bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(offset + static_cast<std::int64_t>(done)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return readFailure(path, errno);
    if (got == 0) break;
    done += got;
  }
  return done;
}

Status wrongRecord(const std::string& path, std::int64_t index, std::string_view what) {
  return {StatusCode::kIo, fmt::format("{}: record {}: {}", path, index, what)};
}

constexpr std::string_view kCutOff = "the file ends inside of it";
constexpr std::string_view kDamagedData = "its data is damaged (CRC)";

// The length that record `index` claims for its data. `left` bytes of the file begin with it.
struct Claim {
  std::int64_t length = 0;
  std::string_view wrong;  // Empty: nothing.
};
Claim lengthIn(std::span<const std::byte, kHeader> header, std::int64_t index, std::int64_t left) {
  ByteReader reader(header);
  const auto length = reader.number<std::uint64_t>();
  if (reader.number<std::uint32_t>() != maskedCrc32c(header.first<8>())) {
    return {.wrong = index == 0 ? "no TFRecord file, or damaged at its beginning"
                                : "its length is damaged (CRC)"};
  }
  const std::int64_t room = left - kHeader - kFooter;
  if (room < 0 || length > static_cast<std::uint64_t>(room)) return {.wrong = kCutOff};
  return {.length = static_cast<std::int64_t>(length), .wrong = {}};
}

}  // namespace

Result<RecordFile> RecordFile::open(std::string path) {
  RecordFile records(std::move(path));
  COLLA_TRY(records.scan());
  return records;
}

Status RecordFile::scan() {
  COLLA_TRY_ASSIGN(const OpenFile file, openFile(path_));
  begins_.push_back(0);
  while (begins_.back() < file.size) {
    const std::int64_t begin = begins_.back();
    const std::int64_t index = size();
    std::array<std::byte, kHeader> header{};
    COLLA_TRY_ASSIGN(const std::size_t got, readAt(file.descriptor.get(), begin, header, path_));
    if (got < header.size()) return wrong(index, kCutOff);
    const Claim claim = lengthIn(header, index, file.size - begin);
    if (!claim.wrong.empty()) return wrong(index, claim.wrong);
    begins_.push_back(begin + kHeader + claim.length + kFooter);
  }
  if (size() > 0) return {};
  return {StatusCode::kIo, fmt::format("{}: the file is empty", path_)};
}

Result<std::vector<std::byte>> RecordFile::read(std::int64_t index) const {
  COLLA_TRY_ASSIGN(const OpenFile file, openFile(path_));
  const std::int64_t begin = begins_[index] + kHeader;
  std::vector<std::byte> bytes(begins_[index + 1] - begin);
  COLLA_TRY_ASSIGN(const std::size_t got, readAt(file.descriptor.get(), begin, bytes, path_));
  if (got < bytes.size()) return wrong(index, "the file has become shorter");
  std::uint32_t crc = 0;
  std::memcpy(&crc, bytes.data() + bytes.size() - kFooter, sizeof(crc));
  bytes.resize(bytes.size() - kFooter);
  if (crc != maskedCrc32c(bytes)) return wrong(index, kDamagedData);
  return bytes;
}

Status RecordFile::wrong(std::int64_t index, std::string_view what) const {
  return wrongRecord(path_, index, what);
}

Result<RecordReader> RecordReader::open(std::string path) {
  COLLA_TRY_ASSIGN(OpenFile file, openFile(path));
  std::FILE* const stream = ::fdopen(file.descriptor.get(), "rb");
  if (stream == nullptr) return readFailure(path, errno);
  (void)file.descriptor.release();  // The stream closes it.
  return RecordReader(std::move(path), stream, file.size);
}

Result<std::optional<std::span<const std::byte>>> RecordReader::fail(std::string_view what) {
  error_ = wrongRecord(path_, index_, what);
  return error_;
}

Result<std::optional<std::span<const std::byte>>> RecordReader::next() {
  if (!error_.ok()) return error_;
  if (left_ == 0) return std::optional<std::span<const std::byte>>();
  const auto cutOff = [this] {
    if (std::ferror(file_.get()) == 0) return fail(kCutOff);
    error_ = readFailure(path_, errno);
    return Result<std::optional<std::span<const std::byte>>>(error_);
  };
  std::array<std::byte, kHeader> header{};
  if (std::fread(header.data(), 1, kHeader, file_.get()) != kHeader) return cutOff();
  const Claim claim = lengthIn(header, index_, left_);
  if (!claim.wrong.empty()) return fail(claim.wrong);
  record_.resize(claim.length + kFooter);
  if (std::fread(record_.data(), 1, record_.size(), file_.get()) != record_.size()) return cutOff();
  const std::span<const std::byte> data = std::span(record_).first(claim.length);
  std::uint32_t crc = 0;
  std::memcpy(&crc, data.data() + data.size(), sizeof(crc));
  if (crc != maskedCrc32c(data)) return fail(kDamagedData);
  left_ -= kHeader + claim.length + kFooter;
  ++index_;
  return std::optional(data);
}

Result<RecordWriter> RecordWriter::create(std::string path) {
  RecordWriter writer(std::move(path), nullptr);
  writer.file_ = std::fopen(writer.unfinished().c_str(), "wbe");
  if (writer.file_ == nullptr) return writer.failure();
  return writer;
}

RecordWriter::RecordWriter(RecordWriter&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, nullptr)) {}

RecordWriter::~RecordWriter() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::error_code ignored;
  std::filesystem::remove(unfinished(), ignored);
}

Status RecordWriter::failure() const {
  return {StatusCode::kIo, fmt::format("cannot write {}: {}", path_, std::strerror(errno))};
}

Status RecordWriter::append(std::span<const std::byte> record) {
  ByteWriter header;
  header.number(static_cast<std::uint64_t>(record.size()));
  header.number(maskedCrc32c(header.bytes()));
  const std::uint32_t crc = maskedCrc32c(record);
  const bool written =
      std::fwrite(header.bytes().data(), 1, header.bytes().size(), file_) == kHeader &&
      std::fwrite(record.data(), 1, record.size(), file_) == record.size() &&
      std::fwrite(&crc, 1, sizeof(crc), file_) == sizeof(crc);
  return written ? Status() : failure();
}

Status RecordWriter::close() {
  const bool flushed = std::fflush(file_) == 0 && ::fsync(::fileno(file_)) == 0;
  if (!flushed) return failure();
  if (std::fclose(std::exchange(file_, nullptr)) != 0) return failure();
  if (std::rename(unfinished().c_str(), path_.c_str()) != 0) return failure();
  return {};
}

}  // namespace colla::data
