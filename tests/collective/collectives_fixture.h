// Ranks that call collectives, on every wire; the data that they bring, and what comes of it.
#pragma once

#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "colla/collectives.h"
#include "support/ranks.h"

namespace colla::test {

// Lengths on both sides of the thresholds; small numbers, so that every sum is exact.
inline constexpr std::size_t kLengths[] = {0, 1, 5, 1000, 2048, 2049, 40'000, 300'001};

inline int valueAt(int rank, std::size_t index) {
  return static_cast<int>((index * 7 + static_cast<std::size_t>(rank) * 13) % 11) - 3;
}

inline std::vector<std::int32_t> dataOf(int rank, std::size_t count, std::size_t offset = 0) {
  std::vector<std::int32_t> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = valueAt(rank, i + offset);
  return data;
}

inline std::vector<std::int32_t> sumOf(int ranks, std::size_t count, std::size_t offset = 0) {
  std::vector<std::int32_t> sum(count, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < count; ++i) sum[i] += valueAt(rank, i + offset);
  }
  return sum;
}

#define COLLA_ASSERT_OK(expression)                                       \
  do {                                                                    \
    const Status& assertStatus = (expression);                            \
    ASSERT_TRUE(assertStatus.ok()) << assertStatus << " in " #expression; \
  } while (false)

// What a test's case is called: "shm_4".
inline std::string caseName(const ::testing::TestParamInfo<std::tuple<Wire, int>>& info) {
  return toString(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param));
}

// Instantiated in reductions_test.cc for the values that every collective gives, on every wire.
// What does not depend on the wire has a suite of its own, on fewer.
class CollectivesTest : public ::testing::TestWithParam<std::tuple<Wire, int>> {
 protected:
  void run(const std::function<void(Group&)>& body,
           std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
    runRanks(std::get<0>(GetParam()), ranks(), body, timeout);
  }
  // Until all ranks are through with what they did before: a rank that breaks the group breaks
  // it for those that are an operation behind, too.
  void meetOutside() { outside_.arrive_and_wait(); }
  int ranks() const { return std::get<1>(GetParam()); }

 private:
  std::barrier<> outside_{ranks()};
};

}  // namespace colla::test
