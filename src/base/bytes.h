// Plain little-endian encoding for what crosses a wire or a file: a writer that appends and a
// reader that never reads past the end.
//
// The reader turns bad after the first read that does not fit and stays so: check ok() once, at
// the end. Neither is thread safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace colla {

static_assert(std::endian::native == std::endian::little, "Colla's wire format is little-endian");

template <typename T>
concept Number = std::is_integral_v<T> || std::is_enum_v<T>;

class ByteWriter {
 public:
  template <Number T>
  void number(T value) {
    append(&value, sizeof(value));
  }
  // 32-bit length, then the bytes.
  void text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    append(value.data(), value.size());
  }
  void raw(std::span<const std::byte> value) { append(value.data(), value.size()); }

  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void append(const void* data, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }
  std::vector<std::byte> bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <Number T>
  T number() {
    T value{};
    const auto part = take(sizeof(T));
    if (part.size() == sizeof(T)) std::memcpy(&value, part.data(), sizeof(T));
    return value;
  }
  std::string text() {
    const auto part = take(number<std::uint32_t>());
    return std::string(reinterpret_cast<const char*>(part.data()), part.size());
  }
  std::span<const std::byte> raw(std::size_t size) { return take(size); }

  bool ok() const { return ok_; }
  // Everything was read, and nothing was missing.
  bool done() const { return ok_ && rest_.empty(); }
  std::size_t remaining() const { return rest_.size(); }

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    const auto part = rest_.first(size);
    rest_ = rest_.subspan(size);
    return part;
  }
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace colla
