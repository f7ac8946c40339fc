// Checkpoints of TensorFlow's ("tensor bundles"): PREFIX.index, a table from names to where each
// tensor lies, and shards of data, PREFIX.data-00000-of-00001.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/listing.h"
#include "colla/status.h"

namespace colla::foreign {

// The prefix, where `text` names such a checkpoint: by its prefix, by one of its files, or by a
// directory in which TensorFlow's file `checkpoint` names the newest one.
std::optional<std::string> bundlePrefix(const std::string& text);

// Every tensor, with its checksum checked. Partitioned variables are put together. Types that Colla
// has not are shown under their own name: unsigned numbers in a wider type, complex ones with a
// last dimension of 2, texts as bytes. Errors name the file or the tensor.
Result<checkpoint::Listing> openBundle(const std::string& prefix);

}  // namespace colla::foreign
