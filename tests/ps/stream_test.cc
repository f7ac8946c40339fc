#include "ps/stream.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "ps/aligned_bytes.h"

namespace colla::ps {
namespace {

// Whatever the place and the length, these bytes and no others.
TEST(StreamTest, CopiesExactly) {
  constexpr std::size_t kSize = 512;
  constexpr std::byte kBefore{0xee};
  std::vector<std::byte> from(kSize);
  for (std::size_t i = 0; i < kSize; ++i) from[i] = static_cast<std::byte>(i * 7 % 251);
  for (const std::size_t place : {0, 1, 16, 64, 100}) {
    for (std::size_t length = 0; length + place <= 300; ++length) {
      const AlignedBytes to(kSize);
      std::ranges::fill(to.bytes(), kBefore);
      streamBytes(to.bytes().data() + place, from.data() + 3, length);
      for (std::size_t i = 0; i < kSize; ++i) {
        const bool within = i >= place && i < place + length;
        ASSERT_EQ(to.bytes()[i], within ? from[3 + i - place] : kBefore)
            << length << " bytes to " << place << ", byte " << i;
      }
    }
  }
}

}  // namespace
}  // namespace colla::ps
