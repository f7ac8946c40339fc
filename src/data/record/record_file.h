// TFRecord files: records of bytes, each with its length and checksums.
//
//   length     8 bytes
//   crc        4 bytes, of the length
//   data       length bytes
//   crc        4 bytes, of the data
//
// all little-endian; checksums are CRC-32C, masked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colla/status.h"

namespace colla::data {

// Records by number. Immutable after opening and thread safe. The file is open only while one is
// read: sets come in more files than a process may have open (ImageNet's in 1,024).
class RecordFile {
 public:
  // Looks for the records: reads and checks their lengths, not their data. kNotFound where there is
  // no such file, kIo, with the file and the record, where it is damaged or empty.
  static Result<RecordFile> open(std::string path);

  const std::string& path() const { return path_; }
  std::int64_t size() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
  // Record `index`, its checksum checked.
  Result<std::vector<std::byte>> read(std::int64_t index) const;
  // "FILE: record 3: what", for errors in a record's contents.
  Status wrong(std::int64_t index, std::string_view what) const;

 private:
  explicit RecordFile(std::string path) : path_(std::move(path)) {}
  Status scan();

  std::string path_;
  std::vector<std::int64_t> begins_;  // Of records, and the end of the last.
};

// Records one after another, through a buffer. A file without records is fine, and damage is found
// when the reader comes to it. Move only, not thread safe.
class RecordReader {
 public:
  static Result<RecordReader> open(std::string path);

  // Nothing at the end. What it returns is there until the next call. After an error, the following
  // calls return the same one.
  Result<std::optional<std::span<const std::byte>>> next();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  RecordReader(std::string path, std::FILE* file, std::int64_t size)
      : path_(std::move(path)), file_(file), left_(size) {}
  Result<std::optional<std::span<const std::byte>>> fail(std::string_view what);

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::int64_t left_;       // Bytes of the file behind those that were read.
  std::int64_t index_ = 0;  // Of the next record.
  std::vector<std::byte> record_;
  Status error_;
};

// Writes a file beside its final name, which it gets when it is complete. Move only, not thread
// safe.
class RecordWriter {
 public:
  static Result<RecordWriter> create(std::string path);
  RecordWriter(RecordWriter&& other) noexcept;
  RecordWriter& operator=(RecordWriter&&) = delete;
  // Removes what close() did not finish.
  ~RecordWriter();

  Status append(std::span<const std::byte> record);
  // Everything is on disk, under its name.
  Status close();

 private:
  RecordWriter(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  Status failure() const;
  std::string unfinished() const { return path_ + ".unfinished"; }

  std::string path_;
  std::FILE* file_;  // Null once closed.
};

}  // namespace colla::data
