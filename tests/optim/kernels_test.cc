#include "optim/kernels.h"

#include <gtest/gtest.h>

#include <array>

#include "base/instruction_set.h"
#include "optim/cases.h"

namespace colla::optim {

template <typename T>
Kernel<T> baselineKernel(const Form& form);
template <typename T>
Kernel<T> avx2Kernel(const Form& form);
template <typename T>
SquareKernel<T> baselineSquares();
template <typename T>
SquareKernel<T> avx2Squares();

namespace {

template <typename T>
class KernelsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!hasAvx2()) GTEST_SKIP() << "this CPU has no AVX2";
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(KernelsTest, Types);

std::vector<Form> allForms() {
  std::vector<Form> forms;
  for (const Method method : {Method::kSgd, Method::kAdagrad, Method::kRmsProp, Method::kAdam}) {
    for (const Decay decay : {Decay::kNone, Decay::kGradient, Decay::kParameter}) {
      if (decay == Decay::kParameter && method != Method::kAdam) continue;
      for (int flags = 0; flags < 32; ++flags) {
        forms.push_back({method, decay, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0,
                         (flags & 8) != 0, (flags & 16) != 0});
      }
    }
  }
  return forms;
}

TYPED_TEST(KernelsTest, BothBuildsGiveTheSameBits) {
  using T = TypeParam;
  constexpr std::size_t kCount = 4099;
  constexpr Coefficients<T> kNumbers{.gradScale = T(0.7),
                                     .weightDecay = T(0.03),
                                     .shrink = T(0.99),
                                     .rate = T(0.1),
                                     .momentum = T(0.9),
                                     .undamped = T(0.6),
                                     .beta1 = T(0.9),
                                     .fresh1 = T(0.1),
                                     .beta2 = T(0.999),
                                     .fresh2 = T(0.001),
                                     .epsilon = T(1e-8)};
  std::mt19937 random(17);
  for (const Form& form : allForms()) {
    // Parameter and slots; all slots are there, whether the form has them or not.
    std::array<std::vector<T>, 1 + kMaxSlots> baseline;
    for (auto& values : baseline) values = awkwardValues<T>(random, kCount);
    const auto gradient = awkwardValues<T>(random, kCount);
    auto avx2 = baseline;
    const auto run = [&](Kernel<T> kernel, std::array<std::vector<T>, 1 + kMaxSlots>& arrays) {
      ASSERT_NE(kernel, nullptr);
      kernel(kNumbers, arrays[0].data(), gradient.data(), arrays[1].data(), arrays[2].data(),
             arrays[3].data(), kCount);
    };
    run(baselineKernel<T>(form), baseline);
    run(avx2Kernel<T>(form), avx2);
    for (std::size_t i = 0; i < baseline.size(); ++i) {
      ASSERT_TRUE(sameBits<T>(std::span<const T>(baseline[i]), avx2[i]))
          << "method " << static_cast<int>(form.method) << ", array " << i;
    }
  }
}

TYPED_TEST(KernelsTest, BothBuildsSumSquaresAlike) {
  std::mt19937 random(18);
  for (const std::size_t count : {0, 1, 7, 8, 9, 15, 1021, 4096}) {
    const auto values = randomValues<TypeParam>(random, count);
    EXPECT_EQ(baselineSquares<TypeParam>()(values.data(), count),
              avx2Squares<TypeParam>()(values.data(), count));
  }
}

}  // namespace
}  // namespace colla::optim
