// Images of one size that lie in memory, with a class each: MNIST, CIFAR and their likes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "colla/array.h"
#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::data {

// `images` is uint8, samples x channels x height x width, `labels` int64. Field image is float32
// from 0 to 1 in the size that `options` asks for, field label the class. Images of the training
// part are cropped and flipped where `options` say so. Those that need scaling are no copies of
// memory any more, so that they are read ahead in threads.
Result<std::shared_ptr<const Dataset>> imageDataset(std::string title, Array images, Array labels,
                                                    std::int64_t classes, Part part,
                                                    const ReadOptions& options);

}  // namespace colla::data
