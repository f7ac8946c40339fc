// Numbers and texts in a row of bytes: written one after another, and read back with every length
// checked.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace colla::ps {

class ByteWriter {
 public:
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) { append(&value, sizeof(T)); }
  template <typename T>
  void putAll(std::span<const T> values) {
    put(static_cast<std::uint64_t>(values.size()));
    append(values.data(), values.size_bytes());
  }
  void putText(std::string_view text) { putAll(std::span(text.data(), text.size())); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void append(const void* data, std::size_t size) {
    const auto* const first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }
  std::vector<std::byte> bytes_;
};

// After a read that failed all others fail too: it is enough to look at ok() in the end.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename T>
  requires std::is_trivially_copyable_v<T> T get() {
    T value{};
    copy(&value, sizeof(T));
    return value;
  }
  template <typename T>
  std::vector<T> getAll() {
    const auto count = get<std::uint64_t>();
    if (count > left_.size() / sizeof(T)) ok_ = false;
    std::vector<T> values(ok_ ? count : 0);
    copy(values.data(), values.size() * sizeof(T));
    return values;
  }
  std::string getText() {
    const auto text = getAll<char>();
    return {text.begin(), text.end()};
  }
  // Everything was there, and nothing is left.
  bool done() const { return ok_ && left_.empty(); }
  bool ok() const { return ok_; }

 private:
  void copy(void* out, std::size_t size) {
    if (!ok_ || size > left_.size()) {
      ok_ = false;
      return;
    }
    if (size > 0) std::memcpy(out, left_.data(), size);
    left_ = left_.subspan(size);
  }
  std::span<const std::byte> left_;
  bool ok_ = true;
};

}  // namespace colla::ps
