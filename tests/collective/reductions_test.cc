// Collectives that reduce, on every wire.
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "collective/collectives_fixture.h"
#include "collective/sixteen_bits.h"

namespace colla {
namespace {

using test::CollectivesTest;
using test::dataOf;
using test::elementOf;
using test::kLengths;
using test::numberOf;
using test::sumOf;
using test::Wire;
using ::testing::HasSubstr;

TEST_P(CollectivesTest, Allreduce) {
  run([&](Group& group) {
    for (const std::size_t count : kLengths) {
      auto data = dataOf(group.rank(), count);
      COLLA_ASSERT_OK(allreduce(group, data));
      ASSERT_EQ(data, sumOf(ranks(), count)) << count;
    }
  });
}

TEST_P(CollectivesTest, Reduce) {
  run([&](Group& group) {
    for (int root = 0; root < ranks(); ++root) {
      for (const std::size_t count : kLengths) {
        const auto data = dataOf(group.rank(), count);
        std::vector<std::int32_t> result(count);
        // Nobody else's is looked at, not even for its type.
        COLLA_ASSERT_OK(
            reduce(group, data, group.rank() == root ? Buffer(result) : Buffer(), root));
        if (group.rank() == root) {
          ASSERT_EQ(result, sumOf(ranks(), count)) << count;
        }
      }
    }
  });
}

TEST_P(CollectivesTest, ReduceScatter) {
  run([&](Group& group) {
    for (const std::size_t count : kLengths) {
      const auto data = dataOf(group.rank(), count * ranks());
      std::vector<std::int32_t> result(count);
      COLLA_ASSERT_OK(reduceScatter(group, data, result));
      ASSERT_EQ(result, sumOf(ranks(), count, count * group.rank())) << count;
    }
  });
}

// What every reduction of one type gives on every rank, on small numbers whose every result but an
// average is exact. Not std::vector, which has no bool to point to.
template <typename T>
void checkType(Group& group) {
  constexpr std::size_t kCount = 777;
  constexpr bool kInteger = std::is_integral_v<T>;
  const int ranks = group.size();
  const auto value = [](int rank, std::size_t i) {
    const int number = static_cast<int>(i + static_cast<std::size_t>(rank)) % 2;
    return std::is_same_v<T, bool> ? number : number + 1;
  };
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    const auto memory = std::make_unique<T[]>(kCount);
    const std::span<T> data(memory.get(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      data[i] = elementOf<T>(static_cast<float>(value(group.rank(), i)));
    }
    const Status status = allreduce(group, data, {.op = op});
    const std::string what =
        std::string(toString(dataTypeOf<T>())) + " " + std::string(toString(op));
    if (kInteger && op == ReduceOp::kAverage) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << what << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("average is not defined for " +
                                                           std::string(toString(dataTypeOf<T>()))));
      continue;
    }
    COLLA_ASSERT_OK(status);
    for (std::size_t i = 0; i < kCount; ++i) {
      int expected = value(0, i);
      for (int rank = 1; rank < ranks; ++rank) {
        const int next = value(rank, i);
        if (op == ReduceOp::kSum || op == ReduceOp::kAverage) expected += next;
        if (op == ReduceOp::kProduct) expected *= next;
        if (op == ReduceOp::kMin) expected = std::min(expected, next);
        if (op == ReduceOp::kMax) expected = std::max(expected, next);
      }
      using Number = decltype(numberOf(T{}));
      auto number = static_cast<Number>(expected);  // Of bool: "or" is any number but zero.
      if (op == ReduceOp::kAverage) number = static_cast<Number>(number / ranks);
      ASSERT_EQ(numberOf(data[i]), numberOf(elementOf<T>(number))) << what;
    }
  }
}

TEST_P(CollectivesTest, EveryTypeAndReduction) {
  run([](Group& group) {
    checkType<float>(group);
    checkType<double>(group);
    checkType<BFloat16>(group);
    checkType<Float16>(group);
    checkType<std::int8_t>(group);
    checkType<std::int16_t>(group);
    checkType<std::int32_t>(group);
    checkType<std::int64_t>(group);
    checkType<std::uint8_t>(group);
    checkType<bool>(group);
  });
}

INSTANTIATE_TEST_SUITE_P(Shared, CollectivesTest,
                         ::testing::Combine(::testing::Values(Wire::kShared, Wire::kShm),
                                            ::testing::Values(1, 2, 3, 4)),
                         test::caseName);
INSTANTIATE_TEST_SUITE_P(Messages, CollectivesTest,
                         ::testing::Combine(::testing::Values(Wire::kMessages),
                                            ::testing::Values(1, 2, 3, 4, 9)),
                         test::caseName);
INSTANTIATE_TEST_SUITE_P(Levels, CollectivesTest,
                         ::testing::Values(std::tuple(Wire::kLevels, 3),
                                           std::tuple(Wire::kLevels, 4),
                                           std::tuple(Wire::kScattered, 5)),
                         test::caseName);
INSTANTIATE_TEST_SUITE_P(Network, CollectivesTest,
                         ::testing::Combine(::testing::Values(Wire::kTcpPlain, Wire::kTcp,
                                                              Wire::kUcx),
                                            ::testing::Values(2, 3)),
                         test::caseName);

}  // namespace
}  // namespace colla
