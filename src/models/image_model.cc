#include "models/image_model.h"

#include <fmt/format.h>

#include <charconv>

#include "base/check.h"
#include "base/invalid.h"
#include "base/log.h"
#include "colla/error.h"
#include "models/classifier.h"
#include "models/linear.h"

namespace colla::models {
namespace {

constexpr std::int64_t kLargest = 16'384;

constexpr char kNoLoss[] =
    "without its top the model has no classes and no loss: --include-top false is for colla "
    "predict, which then writes features";

class ImageModel final : public Model, public Predicts {
 public:
  explicit ImageModel(std::shared_ptr<ImageNet> net) : net_(std::move(net)) {}
  torch::nn::Module& module() override { return *net_; }
  std::vector<std::string> metrics() const override { return {"accuracy"}; }
  Output compute(const std::vector<torch::Tensor>& batch) override {
    if (!net_->options().includeTop) {
      throw Error(StatusCode::kInvalidArgument, kNoLoss);
    }
    const torch::Tensor logits = net_->forward(batch.at(0));
    return {torch::nn::functional::cross_entropy(logits, batch.at(1)),
            {accuracyOf(logits, batch.at(1))}};
  }
  std::vector<Column> predict(const std::vector<torch::Tensor>& batch) override {
    const torch::Tensor output = net_->forward(batch.at(0));
    if (net_->options().includeTop) return classColumns(output, net_->options().softmax);
    return {{"feature", output.flatten(1)}};
  }

 private:
  std::shared_ptr<ImageNet> net_;
};

}  // namespace

std::vector<Flag> imageFlags(std::string_view input) {
  return {{"input", input, "height x width that images are scaled to"},
          kAugment,
          {"classes", "data", "classes of the last layer; data: as many as the data has"},
          {"include-top", "true", "true, or false: features instead of classes, for predictions"},
          {"pooling", "none", "of features without a top: avg, max or none", false},
          {"classifier-activation", "softmax", "of predictions: softmax or none", false},
          {"weights", "none", "safetensors file with the first weights, or none", false}};
}

Result<ReadOptions> imageReads(const Values& values) {
  const std::string& text = values.find("input")->second;
  const char* const end = text.data() + text.size();
  ReadOptions options;
  const auto height = std::from_chars(text.data(), end, options.height);
  if (height.ec == std::errc() && height.ptr != end && *height.ptr == 'x') {
    const auto width = std::from_chars(height.ptr + 1, end, options.width);
    if (width.ec == std::errc() && width.ptr == end && options.height > 0 && options.width > 0 &&
        options.height <= kLargest && options.width <= kLargest) {
      COLLA_TRY_ASSIGN(options.augment,
                       oneOf<bool>(values, "augment", {{"true", true}, {"false", false}}));
      return options;
    }
  }
  return invalid("--input is \"{}\", but takes a height and a width, such as 128x128", text);
}

Result<std::string> imageAdvice(const Values& values) {
  if (values.find("include-top")->second != "false") return std::string();
  return invalid("{}", kNoLoss);
}

Status checkImages(const DataShape& data, const ReadOptions& size, std::int64_t least) {
  if (size.height < least || size.width < least) {
    return invalid("--input is {}x{}, but the model takes images from {}x{}", size.height,
                   size.width, least, least);
  }
  if (data.fields.empty() || data.fields.front().shape.size() != 3 ||
      data.fields.front().type != DataType::kFloat32) {
    return invalid(
        "the model takes images, float32 of channels x height x width, but the data has {}",
        data.fields.empty() ? "no fields" : "others");
  }
  const Field& image = data.fields.front();
  if (image.shape[1] != size.height || image.shape[2] != size.width) {
    return invalid("\"{}\" is {}x{}, but the model wants {}x{}: set --input", image.name,
                   image.shape[1], image.shape[2], size.height, size.width);
  }
  return {};
}

Result<ImageOptions> imageOptions(const DataShape& data, const Values& values, std::int64_t least) {
  COLLA_TRY_ASSIGN(const ReadOptions size, imageReads(values));
  COLLA_TRY(checkImages(data, size, least));
  ImageOptions options;
  options.channels = data.fields.front().shape[0];
  COLLA_TRY_ASSIGN(options.includeTop,
                   oneOf<bool>(values, "include-top", {{"true", true}, {"false", false}}));
  COLLA_TRY_ASSIGN(options.pooling, oneOf<Pooling>(values, "pooling",
                                                   {{"none", Pooling::kNone},
                                                    {"avg", Pooling::kAverage},
                                                    {"max", Pooling::kMax}}));
  COLLA_TRY_ASSIGN(options.softmax, oneOf<bool>(values, "classifier-activation",
                                                {{"softmax", true}, {"none", false}}));
  options.classes = data.classes;
  if (values.find("classes")->second != "data") {
    COLLA_TRY_ASSIGN(options.classes, wholeNumber(values, "classes", 2));
  }
  if (options.includeTop && (data.fields.size() < 2 || data.classes < 2)) {
    return invalid("the model takes images with a class, but the data has {} fields and {} classes",
                   data.fields.size(), data.classes);
  }
  if (options.includeTop && options.classes < data.classes) {
    return invalid("--classes is {}, but the data has {}", options.classes, data.classes);
  }
  COLLA_TRY_ASSIGN(options.weights, openWeights(values, "weights"));
  return options;
}

void ImageNet::finish(std::int64_t width) {
  if (options_.includeTop) {
    fc_ = register_module("fc", torch::nn::Linear(width, options_.classes));
  }
  initialiseAsKeras(*this);
  loadWeights(*this, options_.weights, options_.includeTop ? "" : "fc.");
}

torch::Tensor ImageNet::forward(const torch::Tensor& images) {
  const torch::Tensor x =
      features((images.contiguous(torch::MemoryFormat::ChannelsLast) * 2).sub_(1));
  // Maps get smaller from layer to layer: where any are single values, the last ones are.
  if (is_training() && !warned_ && x.numel() == x.size(1)) {
    warned_ = true;
    log::warn(
        "a slice has one image, which leaves the last layers one value per channel, and of that "
        "BatchNorm keeps nothing: if it is so in every step, give a larger --batch or --input, or "
        "fewer --slices");
  }
  if (options_.includeTop) return fc_->forward(x.mean({2, 3}));
  switch (options_.pooling) {
    case Pooling::kAverage:
      return x.mean({2, 3});
    case Pooling::kMax:
      return x.amax({2, 3});
    case Pooling::kNone:
      break;
  }
  return x;
}

torch::Tensor convolve(const torch::nn::Conv2d& layer, const torch::Tensor& x) {
  const torch::Tensor& weight = layer->weight;
  const std::int64_t stride = layer->options.stride()->at(0);
  // Of single pixels it is one product of matrices: libtorch makes one for each sample of a small
  // batch.
  if (weight.size(2) == 1 && weight.size(3) == 1 && stride == 1) {
    return linear(x.permute({0, 2, 3, 1}), weight.view({weight.size(0), weight.size(1)}),
                  layer->bias)
        .permute({0, 3, 1, 2});
  }
  // Weights in the order of the activations; backward would do that again if it had not got them
  // so.
  return torch::conv2d(x, weight.contiguous(torch::MemoryFormat::ChannelsLast), layer->bias, stride,
                       std::get<torch::ExpandingArray<2>>(layer->options.padding()));
}

torch::Tensor batchNorm(const torch::Tensor& x, const std::optional<torch::Tensor>& weight,
                        const torch::Tensor& bias, const torch::Tensor& mean,
                        const torch::Tensor& variance, bool training, double momentum,
                        double epsilon) {
  if (!training || x.numel() != x.size(1)) {
    return torch::batch_norm(x, weight, bias, mean, variance, training, momentum, epsilon, false);
  }
  {
    const torch::NoGradGuard noGrad;
    mean.mul_(1 - momentum).add_(x.flatten(), momentum);
    variance.mul_(1 - momentum);
  }
  return torch::batch_norm(x, weight, bias, {}, {}, training, 0, epsilon, false);
}

std::unique_ptr<Model> imageModel(std::shared_ptr<ImageNet> net) {
  return std::make_unique<ImageModel>(std::move(net));
}

}  // namespace colla::models
