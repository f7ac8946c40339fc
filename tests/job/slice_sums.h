// A sum of slices whose bits show the order in which they were added.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "base/crc32c.h"
#include "colla/collectives.h"
#include "colla/group.h"
#include "colla/slices.h"
#include "collective/partial_sums.h"

namespace colla::test {

// Of the slice alone, whoever computes it; such numbers that every other order has other bits.
inline std::vector<float> gradientOf(int slice, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(slice));
  std::vector<float> values(count);
  for (float& value : values) value = std::ldexp(static_cast<float>(random()), -(slice % 3) * 9);
  return values;
}

// The sum of all slices of `map` over `group`, as a hash.
inline Result<std::uint32_t> sumHash(Group& group, const SliceMap& map, std::size_t count) {
  const collective::PartialSums sums(map.subtrees(group.rank()), DataType::kFloat32);
  std::vector<std::vector<float>> buffers(sums.buffers(), std::vector<float>(count));
  std::vector<std::byte*> at;
  for (auto& buffer : buffers) at.push_back(reinterpret_cast<std::byte*>(buffer.data()));
  const SliceRange mine = map.range(group.rank());
  for (int slice = mine.begin; slice < mine.end; ++slice) {
    sums.add(slice, at, gradientOf(slice, count).data(), count);
  }
  const std::vector<ConstBuffer> partials(buffers.begin(), buffers.begin() + sums.partials());
  std::vector<float> total(count);
  COLLA_TRY(allreduce(group, map, partials, total));
  return crc32c(std::as_bytes(std::span(total)));
}

}  // namespace colla::test
