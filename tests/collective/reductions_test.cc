// Collectives that reduce, on every wire.
#include <algorithm>
#include <vector>

#include "collective/collectives_fixture.h"

namespace colla {
namespace {

using test::CollectivesTest;
using test::dataOf;
using test::kLengths;
using test::sumOf;

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

TEST_P(CollectivesTest, EveryTypeAndReduction) {
  run([&](Group& group) {
    const auto check = [&]<typename T>(T) {
      for (const ReduceOp op :
           {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
        const auto value = [](int rank, std::size_t i) {
          return static_cast<T>((i + static_cast<std::size_t>(rank)) % 3 + 1);
        };
        std::vector<T> data(777);
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = value(group.rank(), i);
        COLLA_ASSERT_OK(allreduce(group, data, {.op = op}));
        for (std::size_t i = 0; i < data.size(); ++i) {
          T expected = value(0, i);
          for (int rank = 1; rank < ranks(); ++rank) {
            const T next = value(rank, i);
            if (op == ReduceOp::kSum) expected = static_cast<T>(expected + next);
            if (op == ReduceOp::kProduct) expected = static_cast<T>(expected * next);
            if (op == ReduceOp::kMin) expected = std::min(expected, next);
            if (op == ReduceOp::kMax) expected = std::max(expected, next);
          }
          ASSERT_EQ(data[i], expected) << toString(dataTypeOf<T>()) << " " << toString(op);
        }
      }
    };
    check(float{});
    check(double{});
    check(std::int8_t{});
    check(std::int16_t{});
    check(std::int32_t{});
    check(std::int64_t{});
    check(std::uint8_t{});
  });
}

}  // namespace
}  // namespace colla
