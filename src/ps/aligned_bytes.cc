#include "ps/aligned_bytes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace colla::ps {

AlignedBytes::AlignedBytes(std::size_t size) : size_(size) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t rounded =
      std::max((size + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_.get(), 0, rounded);
}

void AlignedBytes::Free::operator()(std::byte* data) const { std::free(data); }

}  // namespace colla::ps
