// Reads bytes that may be compressed by gzip, as they were before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "colla/status.h"

namespace colla::data {

// Not thread safe; `bytes` must outlive it.
class GzipReader {
 public:
  // Whether it is compressed is told by the first bytes, not by a file's name.
  explicit GzipReader(std::span<const std::byte> bytes);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  bool compressed() const { return stream_ != nullptr; }
  // Fills `result`; less than all of it only at the end, which includes the check of gzip's
  // checksum. A compressed stream that ends too early or is damaged is kIo.
  Result<std::size_t> read(std::span<std::byte> result);
  // Bytes read so far, with those before the place where a read failed.
  std::int64_t count() const { return count_; }

 private:
  struct Stream;
  Result<std::size_t> inflate(std::span<std::byte> result);

  std::span<const std::byte> rest_;  // Not used by a compressed one.
  std::unique_ptr<Stream> stream_;
  std::int64_t count_ = 0;
};

}  // namespace colla::data
