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
concept Number = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class ByteWriter {
 public:
  ByteWriter() = default;
  // Allocates once, if no more than `bytes` are written.
  explicit ByteWriter(std::size_t bytes) { bytes_.reserve(bytes); }

  template <Number T>
  void number(T value) {
    append(&value, sizeof(value));
  }
  // 32-bit length, then the bytes.
  void text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    append(value.data(), value.size());
  }
  // 64-bit count, then the numbers.
  template <Number T>
  void list(std::span<const T> values) {
    number(static_cast<std::uint64_t>(values.size()));
    append(values.data(), values.size_bytes());
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
  // Never allocates more than the bytes that are there.
  template <Number T>
  std::vector<T> list() {
    const auto count = number<std::uint64_t>();
    if (count > rest_.size() / sizeof(T)) ok_ = false;
    std::vector<T> values(ok_ ? static_cast<std::size_t>(count) : 0);
    const auto part = take(values.size() * sizeof(T));
    if (!part.empty()) std::memcpy(values.data(), part.data(), part.size());
    return values;
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
