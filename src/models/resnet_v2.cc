// ResNet V2 as in Keras (keras.applications.resnet_v2): normalisation and ReLU in front of the
// convolutions, and the stride of a stack in its last block.
#include <fmt/format.h>

#include "models/image_model.h"
#include "models/makers.h"

namespace colla::models {
namespace {

using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;

// Images of Keras' models are at least so high and wide.
constexpr std::int64_t kLeast = 32;
constexpr std::int64_t kExpansion = 4;

BatchNorm2d norm(std::int64_t channels) {
  // What Keras calls a momentum of 0.99.
  return BatchNorm2d(torch::nn::BatchNormOptions(channels).eps(1.001e-5).momentum(0.01));
}

Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t stride,
                   bool bias) {
  return Conv2d(
      torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(bias));
}

// ReLU in place: nobody needs what a normalisation gave.
torch::Tensor activated(BatchNorm2d& layer, const torch::Tensor& x) {
  if (layer->is_training()) layer->num_batches_tracked += 1;
  return batchNorm(x, layer->weight, layer->bias, layer->running_mean, layer->running_var,
                   layer->is_training(), *layer->options.momentum(), layer->options.eps())
      .relu_();
}

struct BlockImpl : torch::nn::Module {
  BlockImpl(std::int64_t in, std::int64_t filters, std::int64_t step, bool project)
      : stride(step),
        preact(register_module("preact", norm(in))),
        conv1(register_module("conv1", convolution(in, filters, 1, 1, false))),
        bn1(register_module("bn1", norm(filters))),
        conv2(register_module("conv2", convolution(filters, filters, 3, stride, false))),
        bn2(register_module("bn2", norm(filters))),
        conv3(register_module("conv3", convolution(filters, kExpansion * filters, 1, 1, true))) {
    // The first block of a stack, which is never the one with the stride.
    if (project) {
      shortcut = register_module("shortcut", convolution(in, kExpansion * filters, 1, 1, true));
    }
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor first = activated(preact, x);
    torch::Tensor aside = x;
    if (shortcut) {
      aside = convolve(shortcut, first);
    } else if (stride > 1) {
      // As Keras has it. The gradient of a slice would not be channels-last, nor would those of all
      // the blocks before it.
      aside = torch::max_pool2d(x, 1, stride);
    }
    const torch::Tensor y = activated(bn1, convolve(conv1, first));
    const torch::Tensor z = activated(bn2, convolve(conv2, y));
    // Not in place: what convolve() gives may be a view.
    return convolve(conv3, z) + aside;
  }

  std::int64_t stride;
  BatchNorm2d preact;
  Conv2d shortcut{nullptr};
  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  Conv2d conv3;
};
TORCH_MODULE(Block);

class ResNetV2 final : public ImageNet {
 public:
  ResNetV2(const ImageOptions& options, const std::vector<int>& blocks)
      : ImageNet(options),
        conv1_(register_module("conv1", convolution(options.channels, 64, 7, 2, true))) {
    std::int64_t width = 64;
    std::int64_t filters = 64;
    for (std::size_t stack = 0; stack < blocks.size(); ++stack, filters *= 2) {
      torch::nn::Sequential layers;
      for (int block = 0; block < blocks[stack]; ++block) {
        const bool last = block == blocks[stack] - 1 && stack + 1 < blocks.size();
        layers->push_back(Block(width, filters, last ? 2 : 1, block == 0));
        width = kExpansion * filters;
      }
      stacks_.push_back(register_module(fmt::format("layer{}", stack + 1), layers));
    }
    post_ = register_module("post", norm(width));
    finish(width);
  }

 protected:
  torch::Tensor features(torch::Tensor x) override {
    x = conv1_->forward(x);
    // Zeros around it, which count: what is below is no output of a ReLU.
    x = torch::max_pool2d(torch::constant_pad_nd(x, {1, 1, 1, 1}), 3, 2);
    for (auto& stack : stacks_) x = stack->forward(x);
    return activated(post_, x);
  }

 private:
  Conv2d conv1_;
  std::vector<torch::nn::Sequential> stacks_;
  BatchNorm2d post_{nullptr};
};

Result<MakeModel> makeResNet(const DataShape& data, const Values& values,
                             const std::vector<int>& blocks) {
  COLLA_TRY_ASSIGN(const ImageOptions options, imageOptions(data, values, kLeast));
  return MakeModel(
      [options, blocks] { return imageModel(std::make_shared<ResNetV2>(options, blocks)); });
}

}  // namespace

Result<MakeModel> makeResNet50V2(const DataShape& data, const Values& values) {
  return makeResNet(data, values, {3, 4, 6, 3});
}

Result<MakeModel> makeResNet101V2(const DataShape& data, const Values& values) {
  return makeResNet(data, values, {3, 4, 23, 3});
}

Result<MakeModel> makeResNet152V2(const DataShape& data, const Values& values) {
  return makeResNet(data, values, {3, 8, 36, 3});
}

}  // namespace colla::models
