#include "data/gzip.h"

#include <fmt/format.h>
#define ZLIB_CONST  // Input that zlib does not write to.  NOLINT
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace colla::data {

struct GzipReader::Stream {
  z_stream zlib{};
  std::span<const std::byte> rest;  // Not handed to zlib yet, whose counts have 32 bits.
  bool ended = false;
};

GzipReader::GzipReader(std::span<const std::byte> bytes) : rest_(bytes) {
  if (bytes.size() < 2 || bytes[0] != std::byte{0x1f} || bytes[1] != std::byte{0x8b}) return;
  stream_ = std::make_unique<Stream>();
  stream_->rest = bytes;
  constexpr int kGzipOnly = 16;
  // It fails only without memory, or with a library that is not the one of the header.
  COLLA_CHECK(::inflateInit2(&stream_->zlib, MAX_WBITS + kGzipOnly) == Z_OK);
}

GzipReader::~GzipReader() {
  if (stream_ != nullptr) ::inflateEnd(&stream_->zlib);
}

Result<std::size_t> GzipReader::read(std::span<std::byte> result) {
  if (compressed()) return inflate(result);
  const std::size_t size = std::min(result.size(), rest_.size());
  std::copy_n(rest_.begin(), size, result.begin());
  rest_ = rest_.subspan(size);
  count_ += static_cast<std::int64_t>(size);
  return size;
}

Result<std::size_t> GzipReader::inflate(std::span<std::byte> result) {
  constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
  z_stream& zlib = stream_->zlib;
  std::span<const std::byte>& rest = stream_->rest;
  std::size_t done = 0;
  while (done < result.size() && !stream_->ended) {
    if (zlib.avail_in == 0) {
      const auto part = rest.first(std::min(rest.size(), kMost));
      zlib.next_in = reinterpret_cast<const Bytef*>(part.data());
      zlib.avail_in = static_cast<uInt>(part.size());
      rest = rest.subspan(part.size());
    }
    const std::size_t room = std::min(result.size() - done, kMost);
    zlib.next_out = reinterpret_cast<Bytef*>(result.data() + done);
    zlib.avail_out = static_cast<uInt>(room);
    const int outcome = ::inflate(&zlib, Z_NO_FLUSH);
    done += room - zlib.avail_out;
    count_ += static_cast<std::int64_t>(room - zlib.avail_out);

    if (outcome == Z_STREAM_END) {
      // gzip allows several streams one behind the other.
      if (zlib.avail_in == 0 && rest.empty()) {
        stream_->ended = true;
      } else {
        COLLA_CHECK(::inflateReset(&zlib) == Z_OK);
      }
    } else if (outcome == Z_BUF_ERROR) {
      return {StatusCode::kIo, "the gzip stream ends too early"};
    } else if (outcome != Z_OK) {
      return {StatusCode::kIo, fmt::format("the gzip stream is damaged ({})",
                                           zlib.msg != nullptr ? zlib.msg : ::zError(outcome))};
    }
  }
  return done;
}

}  // namespace colla::data
