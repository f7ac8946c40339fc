#include "optim/update_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "optim/cases.h"

namespace colla::optim {
namespace {

template <typename T>
class UpdateRuleTest : public testing::Test {
 public:
  // A tensor in the middle of its training, and a gradient of all kinds of values.
  static Tensor<T> trained(const UpdateRule& rule, std::mt19937& random, std::size_t count) {
    Tensor<T> tensor(rule, count);
    tensor.parameter = randomValues<T>(random, count);
    for (std::int64_t step = 1; step <= 2; ++step) {
      tensor.gradient = randomValues<T>(random, count);
      tensor.apply(rule, {.step = step, .lr = 0.1});
    }
    tensor.gradient = awkwardValues<T>(random, count);
    return tensor;
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(UpdateRuleTest, Types);

// First step and later ones; the scale that changes nothing and one that does.
constexpr Update kUpdates[] = {{.step = 1, .lr = 0.1}, {.step = 3, .lr = 0.02, .gradScale = 0.37}};

std::vector<std::string_view> slotNames(const OptimizerOptions& options) {
  std::vector<std::string_view> names;
  const auto rule = UpdateRule::make(options);
  for (const Slot& slot : rule->slots()) names.push_back(slot.name);
  return names;
}

TEST(SlotsTest, AreNamedAsInTorch) {
  using Names = std::vector<std::string_view>;
  EXPECT_EQ(slotNames(Sgd{}), Names{});
  EXPECT_EQ(slotNames(Sgd{.momentum = 0.9}), Names{"momentum_buffer"});
  EXPECT_EQ(slotNames(Adagrad{}), Names{"sum"});
  EXPECT_EQ(slotNames(RmsProp{}), Names{"square_avg"});
  EXPECT_EQ(slotNames(RmsProp{.centered = true}), (Names{"square_avg", "grad_avg"}));
  EXPECT_EQ(slotNames(RmsProp{.momentum = 0.9, .centered = true}),
            (Names{"square_avg", "momentum_buffer", "grad_avg"}));
  EXPECT_EQ(slotNames(Adam{}), (Names{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(slotNames(AdamW{.amsgrad = true}), (Names{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}));
  EXPECT_EQ(UpdateRule::make(Adagrad{.initialAccumulator = 0.3})->slots()[0].initial, 0.3);
}

TYPED_TEST(UpdateRuleTest, SgdByHand) {
  const auto rule = UpdateRule::make(Sgd{.momentum = 0.5, .dampening = 0.25, .weightDecay = 0.5});
  Tensor<TypeParam> tensor(*rule, 1);
  tensor.parameter = {2};
  tensor.gradient = {4};
  tensor.apply(*rule, {.step = 1, .lr = 0.125, .gradScale = 0.5});
  EXPECT_EQ(tensor.slots[0][0], 3);  // 4 * 0.5 + 0.5 * 2, undampened.
  EXPECT_EQ(tensor.parameter[0], 1.625);
  tensor.gradient = {-1};
  tensor.apply(*rule, {.step = 2, .lr = 0.5});
  EXPECT_EQ(tensor.slots[0][0], 1.359375);  // 3 * 0.5 + 0.75 * (-1 + 0.8125)
  EXPECT_EQ(tensor.parameter[0], 0.9453125);
}

// The first step of Adam is the learning rate in the direction of the gradient, however long it is.
TYPED_TEST(UpdateRuleTest, AdamCorrectsItsBias) {
  const auto rule = UpdateRule::make(Adam{});
  Tensor<TypeParam> tensor(*rule, 3);
  tensor.gradient = {1000, TypeParam(-0.02), 0};
  tensor.apply(*rule, {.step = 1, .lr = 0.01});
  EXPECT_NEAR(tensor.parameter[0], -0.01, 1e-8);
  EXPECT_NEAR(tensor.parameter[1], 0.01, 1e-8);
  EXPECT_EQ(tensor.parameter[2], 0);
}

// A NaN is not lost on its way, not even in a maximum.
TYPED_TEST(UpdateRuleTest, NanReachesTheParameterAndStays) {
  for (const auto& options : allOptions()) {
    const auto rule = UpdateRule::make(options);
    Tensor<TypeParam> tensor(*rule, 9);
    tensor.gradient = std::vector<TypeParam>(9, 1);
    for (std::int64_t step = 1; step <= 3; ++step) {
      tensor.gradient[4] = step == 2 ? std::numeric_limits<TypeParam>::quiet_NaN() : TypeParam(1);
      tensor.apply(*rule, {.step = step, .lr = 0.1});
      for (std::size_t i = 0; i < tensor.size(); ++i) {
        EXPECT_EQ(std::isnan(tensor.parameter[i]), i == 4 && step >= 2) << toString(options);
      }
      for (const auto& slot : tensor.slots) EXPECT_EQ(std::isnan(slot[4]), step >= 2);
    }
  }
}

// A scale of 1 and a weight decay of 0 leave a gradient as it is, -0.0 and all.
TYPED_TEST(UpdateRuleTest, GradientsArriveAsTheyAre) {
  std::mt19937 random(1);
  const auto rule = UpdateRule::make(Sgd{.momentum = 0.9});
  Tensor<TypeParam> tensor(*rule, 1009);
  tensor.gradient = awkwardValues<TypeParam>(random, 1009);
  tensor.apply(*rule, {.step = 1, .lr = 0.1});
  EXPECT_TRUE(sameBits<TypeParam>(std::span<const TypeParam>(tensor.slots[0]), tensor.gradient));
}

TYPED_TEST(UpdateRuleTest, BitsDependOnNeitherPlaceNorCut) {
  using T = TypeParam;
  std::mt19937 random(2);
  for (const auto& options : allOptions()) {
    SCOPED_TRACE(toString(options));
    const auto rule = UpdateRule::make(options);
    for (const std::size_t count : {0, 1, 2, 3, 5, 7, 8, 13, 17, 31, 64, 97, 257}) {
      const auto before = this->trained(*rule, random, count);
      for (const Update& update : kUpdates) {
        auto single = before;
        for (std::size_t i = 0; i < count; ++i) single.apply(*rule, update, i, 1);

        for (std::size_t offset = 0; offset <= 17; ++offset) {
          // Somewhere in a larger buffer, whose other bytes must stay.
          const auto place = [&](const std::vector<T>& values) {
            std::vector<T> buffer(count + 40, T{7});
            std::ranges::copy(values, buffer.begin() + offset);
            return buffer;
          };
          Tensor<T> whole(*rule, 0), expected(*rule, 0);
          whole.parameter = place(before.parameter);
          whole.gradient = place(before.gradient);
          expected.parameter = place(single.parameter);
          for (std::size_t i = 0; i < before.slots.size(); ++i) {
            whole.slots[i] = place(before.slots[i]);
            expected.slots[i] = place(single.slots[i]);
          }
          auto cut = whole;

          whole.apply(*rule, update, offset, count);
          ASSERT_TRUE(sameBits(whole, expected)) << count << " elements, offset " << offset;

          for (std::size_t begin = 0, length = 0; begin < count; begin += length) {
            length = 1 + random() % (count - begin);
            cut.apply(*rule, update, offset + begin, length);
          }
          ASSERT_TRUE(sameBits(cut, expected)) << count << " elements, offset " << offset;
        }
      }
    }
  }
}

TYPED_TEST(UpdateRuleTest, RowsGetTheBitsOfTheWholeAndOthersKeepTheirs) {
  using T = TypeParam;
  std::mt19937 random(3);
  constexpr std::size_t kHeight = 23;
  for (const auto& options : allOptions()) {
    SCOPED_TRACE(toString(options));
    const auto rule = UpdateRule::make(options);
    for (const std::size_t rowSize : {1, 3, 8, 19}) {
      const auto before = this->trained(*rule, random, kHeight * rowSize);
      for (const Update& update : kUpdates) {
        std::vector<std::int64_t> rows;
        for (std::size_t row = 0; row < kHeight; ++row) {
          if (random() % 2 == 0) rows.push_back(static_cast<std::int64_t>(row));
        }
        auto dense = before;
        dense.apply(*rule, update);

        auto sparse = before, expected = before;
        sparse.gradient.clear();
        for (const std::int64_t row : rows) {
          const std::size_t at = row * rowSize;
          const auto copyRow = [&](const std::vector<T>& from, std::vector<T>& to) {
            std::copy_n(from.begin() + at, rowSize, to.begin() + at);
          };
          copyRow(dense.parameter, expected.parameter);
          for (std::size_t i = 0; i < dense.slots.size(); ++i) {
            copyRow(dense.slots[i], expected.slots[i]);
          }
          const auto begin = before.gradient.begin() + at;
          sparse.gradient.insert(sparse.gradient.end(), begin, begin + rowSize);
        }
        rule->template applyRows<T>(update, sparse.parameter, rowSize, rows, sparse.gradient,
                                    sparse.slotSpans(0, sparse.size()));
        ASSERT_TRUE(sameBits(sparse, expected)) << rows.size() << " rows of " << rowSize;
      }
    }
  }
}

TEST(ApplyRowsTest, NoRowsChangeNothing) {
  const auto rule = UpdateRule::make(Sgd{.lr = 1, .weightDecay = 0.5});
  std::vector<float> parameter(12, 3.0f);
  rule->applyRows<float>({.lr = 1}, parameter, 4, {}, {}, {});
  EXPECT_EQ(parameter, std::vector<float>(12, 3.0f));
}

TEST(ApplyRowsDeathTest, RowsOutsideOrOutOfOrderAreBugs) {
  const auto rule = UpdateRule::make(Sgd{});
  std::vector<float> parameter(12), gradient(16);
  const auto apply = [&](const std::vector<std::int64_t>& rows) {
    rule->applyRows<float>({.lr = 1}, parameter, 4, rows,
                           std::span(gradient).first(rows.size() * 4), {});
  };
  EXPECT_DEATH(apply({3}), "height");
  EXPECT_DEATH(apply({-1, 0}), "rows");
  EXPECT_DEATH(apply({1, 1}), "rows");
  EXPECT_DEATH(apply({0, 100, 200, 2}), "rows");  // The last one is inside.
}

}  // namespace
}  // namespace colla::optim
