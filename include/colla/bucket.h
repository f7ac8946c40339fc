// A buffer in memory that the ranks of this host share: collectives reduce it where it lies,
// with no copy. On a job of one process, or one without shared memory, it is ordinary memory.
//
// Zeroed at first, aligned to a page; movable; freed with its last owner, whatever happens to the
// process. May outlive the Job that it was allocated from.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>

#include "colla/data_type.h"

namespace colla {

class Bucket {
 public:
  Bucket() = default;
  Bucket(std::span<std::byte> bytes, std::function<void()> release)
      : bytes_(bytes), release_(std::move(release)) {}
  Bucket(Bucket&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), release_(std::exchange(other.release_, nullptr)) {}
  Bucket& operator=(Bucket&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
    return *this;
  }
  ~Bucket() {
    if (release_) release_();
  }

  std::span<std::byte> bytes() const { return bytes_; }
  // The bucket as elements of T.
  template <Element T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

 private:
  std::span<std::byte> bytes_;
  std::function<void()> release_;
};

}  // namespace colla
