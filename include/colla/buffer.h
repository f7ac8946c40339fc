// Typed views of memory that collectives read and write. They own nothing and are cheap to copy.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "colla/data_type.h"

namespace colla {

// Memory to read from.
class ConstBuffer {
 public:
  ConstBuffer() = default;
  ConstBuffer(const void* data, std::size_t count, DataType type)
      : data_(data), count_(count), type_(type) {}
  template <Element T>
  ConstBuffer(std::span<T> elements)  // NOLINT(google-explicit-constructor)
      : ConstBuffer(elements.data(), elements.size(), dataTypeOf<T>()) {}
  template <Element T>
  ConstBuffer(const std::vector<T>& elements)  // NOLINT(google-explicit-constructor)
      : ConstBuffer(elements.data(), elements.size(), dataTypeOf<T>()) {}

  const std::byte* data() const { return static_cast<const std::byte*>(data_); }
  std::size_t count() const { return count_; }
  DataType type() const { return type_; }
  std::span<const std::byte> bytes() const { return {data(), count_ * sizeOf(type_)}; }
  // Elements [first, first + count).
  ConstBuffer part(std::size_t first, std::size_t count) const {
    return {data() + first * sizeOf(type_), count, type_};
  }

 private:
  const void* data_ = nullptr;
  std::size_t count_ = 0;
  DataType type_ = DataType::kFloat32;
};

// Memory to write to (and, for in-place operations, to read from).
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, std::size_t count, DataType type) : data_(data), count_(count), type_(type) {}
  template <Element T>
  requires(!std::is_const_v<T>)
      Buffer(std::span<T> elements)  // NOLINT(google-explicit-constructor)
      : Buffer(elements.data(), elements.size(), dataTypeOf<T>()) {}
  template <Element T>
  Buffer(std::vector<T>& elements)  // NOLINT(google-explicit-constructor)
      : Buffer(elements.data(), elements.size(), dataTypeOf<T>()) {}

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t count() const { return count_; }
  DataType type() const { return type_; }
  std::span<std::byte> bytes() const { return {data(), count_ * sizeOf(type_)}; }
  Buffer part(std::size_t first, std::size_t count) const {
    return {data() + first * sizeOf(type_), count, type_};
  }
  operator ConstBuffer() const {  // NOLINT(google-explicit-constructor)
    return {data_, count_, type_};
  }

 private:
  void* data_ = nullptr;
  std::size_t count_ = 0;
  DataType type_ = DataType::kFloat32;
};

}  // namespace colla
