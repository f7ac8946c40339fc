// Several sums at once have the bits of one after the other, whatever fits into the posts.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "collective/allreduce.h"
#include "support/ranks.h"

namespace colla {
namespace {

using test::Wire;

// One typed sum of a rank: its partial sums, all filled by the rank's own generator.
struct Sum {
  Sum(DataType itsType, std::size_t itsCount, std::size_t leaves, std::mt19937& random)
      : type(itsType), count(itsCount), memory(leaves) {
    for (std::vector<std::byte>& leaf : memory) {
      leaf.resize(count * sizeOf(type));
      for (std::size_t i = 0; i < count; ++i) fill(leaf, i, random);
      partials.emplace_back(leaf.data(), count, type);
    }
    result.resize(count * sizeOf(type));
  }

  // Numbers whose sum depends on the order, if they are not whole.
  void fill(std::vector<std::byte>& leaf, std::size_t i, std::mt19937& random) const {
    const double value = std::ldexp(std::uniform_real_distribution(-1.0, 1.0)(random),
                                    static_cast<int>(random() % 30));
    const auto put = [&](auto element) {
      std::memcpy(leaf.data() + i * sizeof(element), &element, sizeof(element));
    };
    switch (type) {
      case DataType::kFloat32:
        return put(static_cast<float>(value));
      case DataType::kFloat64:
        return put(value);
      default:
        return put(static_cast<std::uint8_t>(random() % 50));
    }
  }

  collective::SumPart part() { return {partials, Buffer(result.data(), count, type)}; }

  DataType type;
  std::size_t count;
  std::vector<std::vector<std::byte>> memory;
  std::vector<ConstBuffer> partials;
  std::vector<std::byte> result;
};

class TogetherTest : public testing::TestWithParam<Wire> {};
INSTANTIATE_TEST_SUITE_P(Wires, TogetherTest,
                         testing::Values(Wire::kShared, Wire::kShm, Wire::kMessages, Wire::kLevels),
                         [](const auto& wire) { return test::toString(wire.param); });

TEST_P(TogetherTest, HasTheBitsOfOneAfterTheOther) {
  // Nothing large; one large beside small ones; two large; more small ones than a post holds.
  const std::vector<std::vector<std::pair<DataType, std::size_t>>> cases = {
      {{DataType::kFloat32, 10}, {DataType::kFloat64, 7}, {DataType::kUInt8, 5}},
      {{DataType::kFloat32, 50'001}, {DataType::kFloat64, 7}, {DataType::kUInt8, 13}},
      {{DataType::kFloat64, 3}, {DataType::kFloat32, 9'000}, {DataType::kFloat64, 8'001}},
      {{DataType::kFloat32, 600}, {DataType::kFloat64, 500}, {DataType::kFloat32, 700}},
      {{DataType::kUInt8, 1}},
  };
  for (const auto& shapes : cases) {
    const SliceMap map = *SliceMap::of({0, 3, 4, 6});  // Rank 0 has two partial sums.
    test::runRanks(GetParam(), 3, [&](Group& group) {
      std::mt19937 random(static_cast<unsigned>(group.rank()));
      std::vector<Sum> sums;
      for (const auto& [type, count] : shapes) {
        sums.emplace_back(type, count, map.subtrees(group.rank()).size(), random);
      }
      std::vector<std::vector<std::byte>> alone;
      for (Sum& sum : sums) {
        ASSERT_TRUE(allreduce(group, map, sum.partials, sum.part().result).ok());
        alone.push_back(sum.result);
        std::ranges::fill(sum.result, std::byte{0});
      }
      std::vector<collective::SumPart> parts;
      for (Sum& sum : sums) parts.push_back(sum.part());
      const Status status = collective::allreduceTogether(group, map, parts);
      ASSERT_TRUE(status.ok()) << status;
      for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i].result, alone[i]) << i;
    });
  }
}

// A rank that brings a part of a different length finds out, and so do the others.
TEST_P(TogetherTest, DifferentPartsAreAnErrorOnEveryRank) {
  const SliceMap map = *SliceMap::even(2, 2);
  test::runRanks(GetParam(), 2, [&](Group& group) {
    std::mt19937 random(1);
    Sum large(DataType::kFloat32, 50'000, 1, random);
    Sum small(DataType::kFloat64, 3 + static_cast<std::size_t>(group.rank()), 1, random);
    const collective::SumPart parts[] = {large.part(), small.part()};
    EXPECT_EQ(collective::allreduceTogether(group, map, parts).code(), StatusCode::kMismatch);
  });
}

}  // namespace
}  // namespace colla
