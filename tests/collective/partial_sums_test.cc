// A worker's slices folded one after another give the sums of its maximal subtrees.
#include "collective/partial_sums.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <optional>
#include <random>

namespace colla::collective {
namespace {

// From the definition; nothing for a slice without values.
float reference(const std::vector<std::optional<float>>& values, SliceRange range) {
  if (range.size() == 1) return 0.0f + values[range.begin].value_or(0.0f);
  const int middle = splitPoint(range);
  return reference(values, {range.begin, middle}) + reference(values, {middle, range.end});
}

class PartialSumsTest : public testing::TestWithParam<int> {};

// Every range of slices that a worker can have.
TEST_P(PartialSumsTest, FoldAlongTheTree) {
  const int slices = GetParam();
  std::mt19937 random(static_cast<unsigned>(slices));
  for (int begin = 0; begin < slices; ++begin) {
    for (int end = begin + 1; end <= slices; ++end) {
      std::vector<int> first = {0};
      for (const int cut : {begin, end, slices}) {
        if (cut > first.back()) first.push_back(cut);
      }
      const SliceMap map = *SliceMap::of(first);
      const auto subtrees = map.subtrees(begin == 0 ? 0 : 1);
      const PartialSums sums(subtrees, DataType::kFloat32);
      EXPECT_LE(sums.buffers() - sums.partials() + 1,
                std::max(1, static_cast<int>(std::bit_width(static_cast<unsigned>(end - begin)))));

      std::vector<std::optional<float>> values(slices);
      std::vector<float> memory(sums.buffers(), NAN);  // One element in each buffer.
      std::vector<std::byte*> buffers;
      for (float& element : memory) buffers.push_back(reinterpret_cast<std::byte*>(&element));
      for (int slice = begin; slice < end; ++slice) {
        if (random() % 4 == 0) {
          sums.addZeros(slice, buffers, 1);
          continue;
        }
        values[slice] = std::ldexp(static_cast<float>(random()) / 3e9f - 0.7f,
                                   static_cast<int>(random() % 60) - 30);
        if (random() % 8 == 0) values[slice] = -0.0f;
        sums.add(slice, buffers, &*values[slice], 1);
      }
      for (std::size_t i = 0; i < subtrees.size(); ++i) {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(0.0f + memory[i]),
                  std::bit_cast<std::uint32_t>(reference(values, subtrees[i])))
            << "slices [" << subtrees[i].begin << ", " << subtrees[i].end << ") of " << slices;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Slices, PartialSumsTest, testing::Range(1, 20));

}  // namespace
}  // namespace colla::collective
