// What a model wants of the samples (ReadOptions) against what a kind of data set can give: nothing
// that is asked for is ignored.
#pragma once

#include <string_view>

#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::data {

// The wishes that a kind of data set can fulfil.
struct Fulfils {
  bool images = false;      // A size, and augmenting.
  bool length = false;      // Of sequences.
  bool vocabulary = false;  // A file with words.
};

// kInvalidArgument, one line, where `options` ask `name` for something that it can't give, or for a
// size that makes no sense.
Status checkOptions(std::string_view name, const ReadOptions& options, const Fulfils& fulfils);

}  // namespace colla::data
