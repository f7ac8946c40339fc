#include "bench/operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace colla::bench {
namespace {

using enum Operation;
using ::testing::HasSubstr;

constexpr Operation kAllOperations[] = {kAllreduce, kBroadcast, kReduce, kReduceScatter,
                                        kAllgather, kAlltoall,  kBarrier};

TEST(OperationTest, NamesGoBothWays) {
  for (const Operation operation : kAllOperations)
    EXPECT_EQ(*parseOperation(toString(operation)), operation);
  EXPECT_THAT(std::string(parseOperation("allredcue").status().message()),
              HasSubstr("there are allreduce, "));
}

TEST(OperationTest, PointsAreCutIntoEqualParts) {
  EXPECT_EQ(makePoint(kAllreduce, 1024, 3).elements, 256U);
  EXPECT_EQ(makePoint(kAllgather, 1024, 3).elements, 255U);
  EXPECT_EQ(makePoint(kAllgather, 1024, 3).inputs(3), 85U);
  EXPECT_EQ(makePoint(kReduceScatter, 1024, 4).outputs(4), 64U);
  EXPECT_EQ(makePoint(kAlltoall, 4, 3).elements, 3U);  // One for each at least.
  EXPECT_EQ(makePoint(kBarrier, 1024, 3).bytes(), 0U);
}

// What each rank holds afterwards, by the plainest definition of each operation.
std::vector<float> resultOf(Point point, int rank, int np) {
  const auto bring = [&](int of) {
    std::vector<float> values;
    for (std::size_t i = 0; i < point.inputs(np); ++i) values.push_back(inputValue(of, i));
    return values;
  };
  std::vector<float> sum(point.inputs(np));
  std::vector<float> all;
  std::vector<float> parts;
  const std::size_t part = point.elements / np;
  for (int of = 0; of < np; ++of) {
    const auto values = bring(of);
    for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
    all.insert(all.end(), values.begin(), values.end());
    if (point.operation == kAlltoall) {
      const auto begin = values.begin() + rank * part;
      parts.insert(parts.end(), begin, begin + part);
    }
  }
  switch (point.operation) {
    case kAllreduce:
    case kReduce:
      return sum;
    case kBroadcast:
      return bring(0);
    case kReduceScatter:
      return {sum.begin() + rank * part, sum.begin() + (rank + 1) * part};
    case kAllgather:
      return all;
    case kAlltoall:
      return parts;
    case kBarrier:
      break;
  }
  return {};
}

TEST(OperationTest, RightResultsPassAndWrongOnesDoNot) {
  for (const Operation operation : kAllOperations) {
    for (const int np : {2, 3, 4}) {
      const Point point = makePoint(operation, 12000, np);
      for (int rank = 0; rank < np; ++rank) {
        SCOPED_TRACE(testing::Message() << toString(operation) << " " << rank << "/" << np);
        auto output = resultOf(point, rank, np);
        EXPECT_TRUE(checkOutput(point, rank, np, output).ok());
        if (operation == kBarrier || (operation == kReduce && rank != 0)) continue;
        ASSERT_EQ(output.size(), point.outputs(np));
        output.back() += 1;
        const Status status = checkOutput(point, rank, np, output);
        EXPECT_THAT(std::string(status.message()), HasSubstr("wrong result: element"));
      }
    }
  }
}

}  // namespace
}  // namespace colla::bench
