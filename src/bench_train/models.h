// The models of the benchmark, by the names of bench/train_model.h.
#pragma once

#include <string_view>

#include "colla/model.h"
#include "colla/status.h"

namespace colla::bench {

// Loss alone where that is quicker: the peers compute no metrics.
Result<MakeModel> modelNamed(std::string_view name);

}  // namespace colla::bench
