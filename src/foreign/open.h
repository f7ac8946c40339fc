// What a user names to look at, of any system that Colla can read.
#pragma once

#include <string>

#include "checkpoint/listing.h"
#include "colla/status.h"

namespace colla::foreign {

// `text` is what checkpoint::Source::open() takes, the prefix of a checkpoint of TensorFlow's
// ("dir/model.ckpt-100", or one of its files), or a weight file of Keras' (.h5, .keras).
Result<checkpoint::Listing> open(const std::string& text);

}  // namespace colla::foreign
