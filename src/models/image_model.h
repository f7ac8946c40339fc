// What the image models of Keras have in common: their flags, the pooling and the dense layer
// behind the last convolution, loss and predictions.
#pragma once

#include <memory>
#include <optional>

#include "models/catalog.h"
#include "models/weights.h"

namespace colla::models {

enum class Pooling : std::uint8_t { kNone, kAverage, kMax };

struct ImageOptions {
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
  bool includeTop = true;            // Average pooling and a dense layer, which gives logits.
  Pooling pooling = Pooling::kNone;  // Without a top.
  bool softmax = true;               // Of predictions; the loss is cross entropy either way.
  Weights weights;
};

// Whether the training part is cropped and flipped: of every model that takes images by size.
inline constexpr Flag kAugment = {
    "augment", "false", "true: images are cropped and flipped at random in training", false};

// The flags, with `input` (such as "128x128") as the size that images have unless told otherwise.
std::vector<Flag> imageFlags(std::string_view input);
// --input as height and width, and --augment, for Entry::reads.
Result<ReadOptions> imageReads(const Values& values);
// For Entry::advice: without a top there is no loss.
Result<std::string> imageAdvice(const Values& values);
// kInvalidArgument unless the data's first field is images of that size, at least `least` high and
// wide.
Status checkImages(const DataShape& data, const ReadOptions& size, std::int64_t least);
// The same, and the data has classes that the model has too.
Result<ImageOptions> imageOptions(const DataShape& data, const Values& values, std::int64_t least);

// A network from images to logits, or without a top to features. Images are numbers from 0 to 1 and
// mapped to -1 to 1, as Keras' preprocess_input does for these models. Activations are
// channels-last, which oneDNN computes without reordering them; parameters lie in their logical
// order.
class ImageNet : public torch::nn::Module {
 public:
  explicit ImageNet(const ImageOptions& options) : options_(options) {}
  torch::Tensor forward(const torch::Tensor& images);
  const ImageOptions& options() const { return options_; }

 protected:
  // From images to the last convolution's output.
  virtual torch::Tensor features(torch::Tensor x) = 0;
  // Called last by a constructor: the dense layer on `width` channels, then first weights.
  void finish(std::int64_t width);

 private:
  ImageOptions options_;
  torch::nn::Linear fc_{nullptr};
  bool warned_ = false;
};

// What the layer's forward() gives, to rounding, of channels-last activations: quicker.
torch::Tensor convolve(const torch::nn::Conv2d& layer, const torch::Tensor& x);

// torch::batch_norm, and what Keras' BatchNormalization does with one value per channel (a slice of
// one image whose maps are single pixels), where libtorch divides by zero or refuses: the variance
// is 0, and what is left of the value is the shift.
torch::Tensor batchNorm(const torch::Tensor& x, const std::optional<torch::Tensor>& weight,
                        const torch::Tensor& bias, const torch::Tensor& mean,
                        const torch::Tensor& variance, bool training, double momentum,
                        double epsilon);

// Refuses to compute a loss where the network has no top.
std::unique_ptr<Model> imageModel(std::shared_ptr<ImageNet> net);

}  // namespace colla::models
