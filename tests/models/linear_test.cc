// Contract: linear() is torch::linear(), whichever library computes it.
#include "models/linear.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

namespace colla::models {
namespace {

struct Gradients {
  torch::Tensor output, input, weight, bias;
};

using Layer = torch::Tensor (*)(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&);

torch::Tensor leaf(const torch::Tensor& tensor, torch::ScalarType type,
                   bool differentiable = true) {
  return tensor.to(type, /*non_blocking=*/false, /*copy=*/true).requires_grad_(differentiable);
}

// Of the sum of what the layer gives, each number weighted.
Gradients run(Layer layer, torch::ScalarType type, std::int64_t samples, std::int64_t in,
              std::int64_t out, bool differentiableInput = true) {
  torch::manual_seed(7);
  const torch::Tensor input = leaf(torch::randn({samples, in}), type, differentiableInput);
  const torch::Tensor weight = leaf(torch::randn({out, in}), type);
  const torch::Tensor bias = leaf(torch::randn({out}), type);
  const torch::Tensor output = layer(input, weight, bias);
  output.backward(torch::randn({samples, out}).to(output.scalar_type()));
  return {output.detach(), input.grad(), weight.grad(), bias.grad()};
}

torch::Tensor plain(const torch::Tensor& input, const torch::Tensor& weight,
                    const torch::Tensor& bias) {
  return torch::linear(input, weight, bias);
}

// In float32, against the same in float64: a sum of up to `in` terms of size 1.
void expectClose(const torch::Tensor& found, const torch::Tensor& exact, std::int64_t terms) {
  ASSERT_EQ(found.sizes(), exact.sizes());
  const double error = (found.to(torch::kFloat64) - exact).abs().max().item<double>();
  EXPECT_LT(error, 1e-6 * static_cast<double>(terms));
}

TEST(LinearTest, OneDnnGivesWhatTorchDoesForwardAndBackward) {
  for (const auto& [samples, in, out] : std::vector<std::array<std::int64_t, 3>>{
           {100, 784, 100}, {1, 20, 7}, {33, 100, 10}, {50, 1, 1}, {7, 513, 129}}) {
    SCOPED_TRACE(testing::Message() << samples << " samples, " << in << " to " << out);
    const Gradients found = run(linearByOneDnn, torch::kFloat32, samples, in, out);
    const Gradients exact = run(plain, torch::kFloat64, samples, in, out);
    expectClose(found.output, exact.output, in);
    expectClose(found.input, exact.input, out + 10);
    expectClose(found.weight, exact.weight, samples + 10);
    expectClose(found.bias, exact.bias, samples + 10);
    EXPECT_TRUE(found.weight.is_contiguous());
  }
}

TEST(LinearTest, InputWithoutGradientGetsNone) {
  const Gradients found = run(linearByOneDnn, torch::kFloat32, 8, 16, 4, false);
  EXPECT_FALSE(found.input.defined());
  EXPECT_TRUE(found.weight.defined());
}

TEST(LinearTest, TakesMoreDimensionsAndNoBias) {
  torch::manual_seed(3);
  const torch::Tensor input = torch::randn({4, 5, 6, 12}).permute({0, 2, 1, 3});
  const torch::Tensor weight = torch::randn({3, 12}).requires_grad_(true);
  const torch::Tensor again = weight.detach().clone().requires_grad_(true);
  const torch::Tensor found = linearByOneDnn(input, weight, {});
  const torch::Tensor wanted = torch::linear(input, again);
  ASSERT_EQ(found.sizes(), wanted.sizes());
  EXPECT_TRUE(torch::allclose(found, wanted, 1e-5, 1e-5));
  found.square().sum().backward();
  wanted.square().sum().backward();
  EXPECT_TRUE(torch::allclose(weight.grad(), again.grad(), 1e-5, 1e-3));
}

TEST(LinearTest, SameBitsEveryTime) {
  const Gradients once = run(linear, torch::kFloat32, 100, 784, 100);
  const Gradients again = run(linear, torch::kFloat32, 100, 784, 100);
  EXPECT_TRUE(torch::equal(once.output, again.output));
  EXPECT_TRUE(torch::equal(once.weight, again.weight));
}

TEST(LinearTest, OtherTypesAndAutocastAreTorchs) {
  const Gradients found = run(linearByOneDnn, torch::kFloat64, 9, 30, 5);
  const Gradients exact = run(plain, torch::kFloat64, 9, 30, 5);
  EXPECT_TRUE(torch::equal(found.output, exact.output));

  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const torch::Tensor output = run(linearByOneDnn, torch::kFloat32, 9, 30, 5).output;
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(output.scalar_type(), torch::kBFloat16);
}

}  // namespace
}  // namespace colla::models
