// Inception-v3 as in Keras (keras.applications.inception_v3): convolutions without bias, each with
// a normalisation that shifts and does not scale, then ReLU.
#pragma once

#include <memory>

#include "models/image_model.h"

namespace colla::models {

// Images of Keras' model are at least so high and wide.
constexpr std::int64_t kInceptionLeast = 75;
// Channels of its features.
constexpr std::int64_t kInceptionWidth = 2048;

std::shared_ptr<ImageNet> makeInceptionNet(const ImageOptions& options);

}  // namespace colla::models
