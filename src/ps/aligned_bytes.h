// Memory from a 64-byte boundary, zeroed.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace colla::ps {

class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t size);
  std::span<std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

// `count` numbers from byte `offset` on, which is a multiple of their size.
template <typename T>
std::span<T> elements(std::span<std::byte> bytes, std::size_t offset, std::size_t count) {
  return {reinterpret_cast<T*>(bytes.data() + offset), count};
}

}  // namespace colla::ps
