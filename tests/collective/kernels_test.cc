#include "collective/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "collective/sixteen_bits.h"

namespace colla::collective {

const Kernels* baselineKernels(DataType type, ReduceOp op);
const Kernels* avx2Kernels(DataType type, ReduceOp op);

namespace {

using test::roundTo;
using test::valueOf;

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProduct};

template <typename T>
void checkSixteenBitSums(DataType type, int exponentBits, int mantissaBits) {
  std::mt19937 random(7);
  std::vector<T> left(65536), right(65536), sum(65536);
  for (int round = 0; round < 4; ++round) {
    for (std::size_t i = 0; i < left.size(); ++i) {
      left[i].bits = static_cast<std::uint16_t>(i);  // Every value there is,
      right[i].bits = round == 0 ? 0 : static_cast<std::uint16_t>(random());
      // and, every other time, one of like magnitude.
      if (round % 2 == 1) right[i].bits = static_cast<std::uint16_t>(i ^ (random() % 0x900));
    }
    kernelsFor(type, ReduceOp::kSum).combine(sum.data(), left.data(), right.data(), sum.size());
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const double exact = valueOf(left[i].bits, exponentBits, mantissaBits) +
                           valueOf(right[i].bits, exponentBits, mantissaBits);
      const double got = valueOf(sum[i].bits, exponentBits, mantissaBits);
      if (std::isnan(exact)) {
        ASSERT_TRUE(std::isnan(got)) << left[i].bits << " + " << right[i].bits;
      } else if (std::isinf(exact)) {
        ASSERT_EQ(got, exact);
      } else {
        // Through float32, as the sum of two of them is rounded there first.
        const double single = static_cast<float>(exact);
        ASSERT_EQ(sum[i].bits, roundTo(single, exponentBits, mantissaBits))
            << left[i].bits << " + " << right[i].bits;
      }
    }
  }
}

TEST(KernelsTest, BFloat16SumsAreRoundedToNearestEven) {
  checkSixteenBitSums<BFloat16>(DataType::kBFloat16, 8, 7);
}
TEST(KernelsTest, Float16SumsAreRoundedToNearestEven) {
  checkSixteenBitSums<Float16>(DataType::kFloat16, 5, 10);
}

// The two builds, and every position in a vector, give the same bits.
TEST(KernelsTest, BitsDependNeitherOnInstructionSetNorOnPosition) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this CPU has no AVX2";
  std::mt19937 random(11);
  std::vector<std::uint64_t> left(129), right(129), wide(129), narrow(129), single(129);
  for (int t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    const std::size_t size = sizeOf(type);
    const std::size_t count = left.size() * 8 / size;
    for (std::size_t i = 0; i < left.size(); ++i) {
      left[i] = (std::uint64_t{random()} << 32) | random();
      right[i] = (std::uint64_t{random()} << 32) | random();
      if (type == DataType::kBool) {
        left[i] &= 0x0101010101010101;
        right[i] &= 0x0101010101010101;
      }
    }
    for (const ReduceOp op : kOps) {
      if (!supported(type, op)) continue;
      SCOPED_TRACE(std::string(toString(type)) + " " + std::string(toString(op)));
      const auto byElement = [&](const Kernels& kernels, void* out) {
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t at = i * size;
          kernels.combineRoot(static_cast<char*>(out) + at,
                              reinterpret_cast<const char*>(left.data()) + at,
                              reinterpret_cast<const char*>(right.data()) + at, 1, 3);
        }
      };
      avx2Kernels(type, op)->combineRoot(wide.data(), left.data(), right.data(), count, 3);
      baselineKernels(type, op)->combineRoot(narrow.data(), left.data(), right.data(), count, 3);
      byElement(*avx2Kernels(type, op), single.data());
      // NaN payloads are unspecified: compare through a form in which all NaNs are one.
      const auto quiet = [&](std::vector<std::uint64_t>& values) {
        if (type == DataType::kFloat32) {
          auto* p = reinterpret_cast<float*>(values.data());
          for (std::size_t i = 0; i < count; ++i) {
            if (std::isnan(p[i])) p[i] = std::numeric_limits<float>::quiet_NaN();
          }
        } else if (type == DataType::kFloat64) {
          auto* p = reinterpret_cast<double*>(values.data());
          for (std::size_t i = 0; i < count; ++i) {
            if (std::isnan(p[i])) p[i] = std::numeric_limits<double>::quiet_NaN();
          }
        } else if (type == DataType::kFloat16 || type == DataType::kBFloat16) {
          auto* p = reinterpret_cast<std::uint16_t*>(values.data());
          const std::uint16_t infinity = type == DataType::kFloat16 ? 0x7c00 : 0x7f80;
          for (std::size_t i = 0; i < count; ++i) {
            if ((p[i] & 0x7fff) > infinity) p[i] = 0x7fff;
          }
        }
      };
      quiet(wide);
      quiet(narrow);
      quiet(single);
      EXPECT_EQ(wide, narrow);
      EXPECT_EQ(wide, single);
    }
  }
}

TEST(KernelsTest, SumsStartFromPositiveZero) {
  const float zero = -0.0f;
  float out = 1;
  kernelsFor(DataType::kFloat32, ReduceOp::kSum).combineRoot(&out, &zero, &zero, 1, 1);
  EXPECT_FALSE(std::signbit(out));
  kernelsFor(DataType::kFloat32, ReduceOp::kSum).finish(&out, &zero, 1, 1);
  EXPECT_FALSE(std::signbit(out));
  kernelsFor(DataType::kFloat32, ReduceOp::kMax).finish(&out, &zero, 1, 1);
  EXPECT_TRUE(std::signbit(out));
}

TEST(KernelsTest, NanWinsMinAndMax) {
  const float nan = NAN, one = 1;
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    float out = 0;
    kernelsFor(DataType::kFloat32, op).combine(&out, &nan, &one, 1);
    EXPECT_TRUE(std::isnan(out));
    kernelsFor(DataType::kFloat32, op).combine(&out, &one, &nan, 1);
    EXPECT_TRUE(std::isnan(out));
  }
}

TEST(KernelsTest, IntegersWrapAndHaveNoAverage) {
  const std::int32_t big = std::numeric_limits<std::int32_t>::max(), one = 1;
  std::int32_t out = 0;
  kernelsFor(DataType::kInt32, ReduceOp::kSum).combine(&out, &big, &one, 1);
  EXPECT_EQ(out, std::numeric_limits<std::int32_t>::min());
  EXPECT_FALSE(supported(DataType::kInt64, ReduceOp::kAverage));
  EXPECT_FALSE(supported(DataType::kBool, ReduceOp::kAverage));
  EXPECT_TRUE(supported(DataType::kFloat16, ReduceOp::kAverage));
}

TEST(KernelsTest, BooleansAreOrAndAnd) {
  const bool left[] = {false, false, true, true}, right[] = {false, true, false, true};
  bool out[4];
  kernelsFor(DataType::kBool, ReduceOp::kSum).combine(out, left, right, 4);
  EXPECT_EQ((std::vector<bool>(out, out + 4)), (std::vector<bool>{false, true, true, true}));
  kernelsFor(DataType::kBool, ReduceOp::kProduct).combine(out, left, right, 4);
  EXPECT_EQ((std::vector<bool>(out, out + 4)), (std::vector<bool>{false, false, false, true}));
}

}  // namespace
}  // namespace colla::collective
