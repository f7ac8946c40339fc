#include "models/inception_v3.h"

#include <fmt/format.h>

#include "models/makers.h"

namespace colla::models {
namespace {

using torch::Tensor;

struct Size {
  std::int64_t height;
  std::int64_t width;
};

// A convolution without bias, BatchNorm without scale, ReLU. Named conv and bn, as in torchvision,
// whose bn has a weight as well.
struct UnitImpl : torch::nn::Module {
  UnitImpl(std::int64_t in, std::int64_t out, Size size, std::int64_t stride, bool pad) {
    auto options =
        torch::nn::Conv2dOptions(in, out, {size.height, size.width}).stride(stride).bias(false);
    if (pad) options.padding({size.height / 2, size.width / 2});
    conv = register_module("conv", torch::nn::Conv2d(options));
    bn = register_module("bn", std::make_shared<torch::nn::Module>("bn"));
    bias = bn->register_parameter("bias", torch::zeros(out));
    mean = bn->register_buffer("running_mean", torch::zeros(out));
    variance = bn->register_buffer("running_var", torch::ones(out));
  }
  Tensor forward(const Tensor& x) {
    // What Keras calls a momentum of 0.99.
    constexpr double kMomentum = 0.01;
    constexpr double kEpsilon = 1e-3;
    return batchNorm(convolve(conv, x), {}, bias, mean, variance, is_training(), kMomentum,
                     kEpsilon)
        .relu_();
  }
  torch::nn::Conv2d conv{nullptr};
  std::shared_ptr<torch::nn::Module> bn;
  Tensor bias;
  Tensor mean;
  Tensor variance;
};
TORCH_MODULE(Unit);

// Same size as before, with as many channels.
struct Step {
  std::int64_t out;
  Size size;
};

// The average over the neighbours that there are: Keras counts no padding.
Tensor averagePool(const Tensor& x) { return torch::avg_pool2d(x, 3, 1, 1, false, false); }
Tensor maxPool(const Tensor& x) { return torch::max_pool2d(x, 3, 2); }

// A module whose parts are made by name, and remember how many channels each gives.
struct MixedImpl : torch::nn::Module {
  Unit unit(const std::string& name, std::int64_t in, std::int64_t out, Size size,
            std::int64_t stride = 1, bool pad = true) {
    return register_module(name, Unit(in, out, size, stride, pad));
  }
  // name_1, name_2, …
  std::vector<Unit> chain(const std::string& name, std::int64_t in,
                          const std::vector<Step>& steps) {
    std::vector<Unit> units;
    for (const auto& [out, size] : steps) {
      units.push_back(unit(fmt::format("{}_{}", name, units.size() + 1), in, out, size));
      in = out;
    }
    return units;
  }
  virtual Tensor forward(const Tensor& x) = 0;
};

Tensor through(std::vector<Unit>& units, Tensor x) {
  for (Unit& unit : units) x = unit->forward(x);
  return x;
}

// Branches side by side, and one behind an average pooling.
struct Branches final : MixedImpl {
  Branches(std::int64_t in, const std::vector<std::pair<std::string, std::vector<Step>>>& parts,
           std::int64_t poolOut) {
    for (const auto& [name, steps] : parts) branches.push_back(chain(name, in, steps));
    pool = unit("pool", in, poolOut, {1, 1});
  }
  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> outputs;
    for (auto& branch : branches) outputs.push_back(through(branch, x));
    outputs.push_back(pool->forward(averagePool(x)));
    return torch::cat(outputs, 1);
  }
  std::vector<std::vector<Unit>> branches;
  Unit pool{nullptr};
};

// The same with stride 2 in the last unit of each branch, and a max pooling.
struct Reduction final : MixedImpl {
  struct Part {
    std::string name;
    std::vector<Step> steps;
    std::int64_t out;
  };
  Reduction(std::int64_t in, const std::vector<Part>& parts) {
    for (const auto& [name, steps, out] : parts) {
      auto& branch = branches.emplace_back(chain(name, in, steps));
      branch.push_back(unit(name, steps.empty() ? in : steps.back().out, out, {3, 3}, 2, false));
    }
  }
  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> outputs;
    for (auto& branch : branches) outputs.push_back(through(branch, x));
    outputs.push_back(maxPool(x));
    return torch::cat(outputs, 1);
  }
  std::vector<std::vector<Unit>> branches;
};

// The last two: branches that fork into a wide and a high convolution.
struct Forked final : MixedImpl {
  explicit Forked(std::int64_t in)
      : one(unit("branch1x1", in, 320, {1, 1})),
        three(chain("branch3x3", in, {{384, {1, 1}}})),
        wide3(unit("branch3x3_wide", 384, 384, {1, 3})),
        high3(unit("branch3x3_high", 384, 384, {3, 1})),
        twice(chain("branch3x3dbl", in, {{448, {1, 1}}, {384, {3, 3}}})),
        wide(unit("branch3x3dbl_wide", 384, 384, {1, 3})),
        high(unit("branch3x3dbl_high", 384, 384, {3, 1})),
        pool(unit("pool", in, 192, {1, 1})) {}
  Tensor forward(const Tensor& x) override {
    const Tensor a = through(three, x);
    const Tensor b = through(twice, x);
    return torch::cat({one->forward(x), wide3->forward(a), high3->forward(a), wide->forward(b),
                       high->forward(b), pool->forward(averagePool(x))},
                      1);
  }
  Unit one;
  std::vector<Unit> three;
  Unit wide3;
  Unit high3;
  std::vector<Unit> twice;
  Unit wide;
  Unit high;
  Unit pool;
};

std::shared_ptr<MixedImpl> wideBranches(std::int64_t in, std::int64_t poolOut) {
  return std::make_shared<Branches>(
      in,
      std::vector<std::pair<std::string, std::vector<Step>>>{
          {"branch1x1", {{64, {1, 1}}}},
          {"branch5x5", {{48, {1, 1}}, {64, {5, 5}}}},
          {"branch3x3dbl", {{64, {1, 1}}, {96, {3, 3}}, {96, {3, 3}}}}},
      poolOut);
}

std::shared_ptr<MixedImpl> longBranches(std::int64_t middle) {
  const Size wide{1, 7};
  const Size high{7, 1};
  return std::make_shared<Branches>(
      768,
      std::vector<std::pair<std::string, std::vector<Step>>>{
          {"branch1x1", {{192, {1, 1}}}},
          {"branch7x7", {{middle, {1, 1}}, {middle, wide}, {192, high}}},
          {"branch7x7dbl",
           {{middle, {1, 1}}, {middle, high}, {middle, wide}, {middle, high}, {192, wide}}}},
      192);
}

class InceptionV3 final : public ImageNet {
 public:
  explicit InceptionV3(const ImageOptions& options)
      : ImageNet(options),
        conv1_(register_module("conv1", Unit(options.channels, 32, Size{3, 3}, 2, false))),
        conv2_(register_module("conv2", Unit(32, 32, Size{3, 3}, 1, false))),
        conv3_(register_module("conv3", Unit(32, 64, Size{3, 3}, 1, true))),
        conv4_(register_module("conv4", Unit(64, 80, Size{1, 1}, 1, false))),
        conv5_(register_module("conv5", Unit(80, 192, Size{3, 3}, 1, false))) {
    add(wideBranches(192, 32));
    add(wideBranches(256, 64));
    add(wideBranches(288, 64));
    add(std::make_shared<Reduction>(
        288, std::vector<Reduction::Part>{{"branch3x3", {}, 384},
                                          {"branch3x3dbl", {{64, {1, 1}}, {96, {3, 3}}}, 96}}));
    for (const std::int64_t middle : {128, 160, 160, 192}) add(longBranches(middle));
    add(std::make_shared<Reduction>(
        768, std::vector<Reduction::Part>{
                 {"branch3x3", {{192, {1, 1}}}, 320},
                 {"branch7x7x3", {{192, {1, 1}}, {192, {1, 7}}, {192, {7, 1}}}, 192}}));
    add(std::make_shared<Forked>(1280));
    add(std::make_shared<Forked>(kInceptionWidth));
    finish(kInceptionWidth);
  }

 protected:
  Tensor features(Tensor x) override {
    x = conv3_->forward(conv2_->forward(conv1_->forward(x)));
    x = conv5_->forward(conv4_->forward(maxPool(x)));
    x = maxPool(x);
    for (const auto& mixed : mixed_) x = mixed->forward(x);
    return x;
  }

 private:
  // mixed0, mixed1, …, as Keras calls them.
  void add(std::shared_ptr<MixedImpl> mixed) {
    mixed_.push_back(register_module(fmt::format("mixed{}", mixed_.size()), std::move(mixed)));
  }

  Unit conv1_;
  Unit conv2_;
  Unit conv3_;
  Unit conv4_;
  Unit conv5_;
  std::vector<std::shared_ptr<MixedImpl>> mixed_;
};

}  // namespace

std::shared_ptr<ImageNet> makeInceptionNet(const ImageOptions& options) {
  return std::make_shared<InceptionV3>(options);
}

Result<MakeModel> makeInceptionV3(const DataShape& data, const Values& values) {
  COLLA_TRY_ASSIGN(const ImageOptions options, imageOptions(data, values, kInceptionLeast));
  return MakeModel([options] { return imageModel(makeInceptionNet(options)); });
}

}  // namespace colla::models
