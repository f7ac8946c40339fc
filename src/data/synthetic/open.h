// Synthetic sets by the size that stands in their name: "synthetic:NAME:SIZE".
//
// `size` may be empty: then a set is as large as what it stands for, or as is handy. The test part
// is a sixth of the training part, as MNIST's is. kInvalidArgument for a size or for options that
// make no sense, kNoMemory where half of the machine's memory would not hold it.
#pragma once

#include <memory>
#include <string_view>

#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::data {

using DatasetResult = Result<std::shared_ptr<const Dataset>>;

DatasetResult openSyntheticCaptions(std::string_view size, Part part, const ReadOptions& options);
DatasetResult openSyntheticCifar10(std::string_view size, Part part, const ReadOptions& options);
DatasetResult openSyntheticCifar100(std::string_view size, Part part, const ReadOptions& options);
DatasetResult openSyntheticGpcr(std::string_view size, Part part, const ReadOptions& options);
DatasetResult openSyntheticLibsvm(std::string_view size, Part part, const ReadOptions& options);
DatasetResult openSyntheticLr(std::string_view size, Part part, const ReadOptions& options);
DatasetResult openSyntheticMnist(std::string_view size, Part part, const ReadOptions& options);
DatasetResult openSyntheticText(std::string_view size, Part part, const ReadOptions& options);

}  // namespace colla::data
