// Workers of one host keep the large arrays of their data once (data/shared_pages.h).
#pragma once

#include <memory>
#include <span>

#include "colla/dataset.h"
#include "train/exchange/workers.h"

namespace colla::train {

// Every worker calls it with the same parts, of which some may be null, while nobody reads them.
// Where sharing is not possible, workers go on with what they have. Throws colla::Error.
void shareData(const Workers& workers, std::span<const std::shared_ptr<const Dataset>> parts);

}  // namespace colla::train
