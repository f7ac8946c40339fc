#include "c10d/tensors.h"

#include <gtest/gtest.h>

namespace colla::c10d {
namespace {

// 200 and 300 don't fit the types whose sums they divide.
TEST(TensorsTest, AveragesIntegersOfManyRanks) {
  const ::c10d::ReduceOp average(::c10d::ReduceOp::AVG);
  for (const int ranks : {3, 127, 128, 200, 300}) {
    for (const at::ScalarType type : {at::kChar, at::kByte, at::kShort, at::kInt, at::kLong}) {
      const int least = type == at::kByte ? 0 : -128;
      const at::Tensor sum = at::arange(least, least + 256, at::kLong).to(type);
      const at::Tensor before = sum.clone();
      finishAverage(sum, average, ranks);
      for (std::int64_t i = 0; i < sum.numel(); ++i) {
        ASSERT_EQ(sum[i].item<std::int64_t>(), before[i].item<std::int64_t>() / ranks)
            << type << " of " << ranks << " ranks";
      }
    }
  }
}

}  // namespace
}  // namespace colla::c10d
