// Memory with a type and a shape: what data sets are made of and batches come in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "colla/data_type.h"
#include "colla/status.h"

namespace colla {

// Starts on a 64-byte boundary, always: matrix products were seen to give other bits elsewhere.
//
// Cheap to copy: copies share the memory, which is freed with the last of them. It may be a part of
// a data set's own memory, so whoever got an Array from a data set only reads it. As safe in
// threads as the memory itself.
class Array {
 public:
  static constexpr std::size_t kAlignment = 64;

  Array() = default;  // No elements, in one dimension.
  // New memory, not initialised. kNoMemory when there is not enough, kInvalidArgument for a
  // negative dimension or more elements than can be counted.
  static Result<Array> allocate(DataType type, std::vector<std::int64_t> shape);
  // Memory at `data`, on a 64-byte boundary, that lives as long as `owner`.
  static Array view(std::shared_ptr<void> owner, std::byte* data, DataType type,
                    std::vector<std::int64_t> shape);

  DataType type() const { return type_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  // The number of elements in all.
  std::int64_t count() const { return count_; }
  // Length of the first dimension: samples, in a batch.
  std::int64_t rows() const { return shape_.empty() ? 1 : shape_.front(); }
  std::byte* data() const { return data_; }
  std::span<std::byte> bytes() const { return {data_, count_ * sizeOf(type_)}; }
  // The elements; T must be the C++ type of type().
  template <Element T>
  std::span<T> as() const {
    checkType(dataTypeOf<T>());
    return {reinterpret_cast<T*>(data_), static_cast<std::size_t>(count_)};
  }
  // What keeps the memory alive.
  const std::shared_ptr<void>& owner() const { return owner_; }

 private:
  void checkType(DataType type) const;

  std::shared_ptr<void> owner_;
  std::byte* data_ = nullptr;
  DataType type_ = DataType::kFloat32;
  std::vector<std::int64_t> shape_{0};
  std::int64_t count_ = 0;
};

// Arrays whose memory comes back when nobody holds it any more, for the next one of about that
// size: fresh memory costs more to touch for the first time than a batch costs to copy.
//
// Thread safe. Arrays may outlive the pool.
class ArrayPool {
 public:
  ArrayPool();
  // As Array::allocate.
  Result<Array> allocate(DataType type, std::vector<std::int64_t> shape);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace colla
