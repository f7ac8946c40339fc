// CIFAR-10 and CIFAR-100: colour images of 32 x 32 pixels in ten or a hundred classes.
#pragma once

#include <memory>
#include <string>

#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::data {

enum class Cifar : std::uint8_t { k10, k100 };

// Whether `folder` has files with the names of that set's.
bool looksLikeCifar(Cifar which, const std::string& folder);

// `part` of the set in `folder`, from the binary version (data_batch_*.bin and test_batch.bin; for
// CIFAR-100 train.bin and test.bin) or, where there is none of that, the Python version (the same
// names without .bin). Some of the data_batch files are fine too. CIFAR-100's classes are the fine
// ones. Field image is float32 3 x 32 x 32 from 0 to 1, scaled and cropped as `options` say, field
// label the class. Everything is read and checked here; kNotFound for a part without files.
Result<std::shared_ptr<const Dataset>> openCifar(Cifar which, const std::string& folder, Part part,
                                                 const ReadOptions& options = {});

}  // namespace colla::data
