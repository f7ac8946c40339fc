// A share of another set's samples, to see what less data gives: "share:10%:NAME".
#pragma once

#include <string_view>

#include "data/synthetic/open.h"

namespace colla::data {

// `argument` is "10%:NAME", with a percentage from 1 to 100. Of the training part it has so many
// samples, evenly spread; the test part is whole. kInvalidArgument for a share that can't be.
DatasetResult openShare(std::string_view argument, Part part, const ReadOptions& options);

}  // namespace colla::data
