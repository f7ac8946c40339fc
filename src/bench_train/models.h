// The models of the benchmark, by the names of bench/train_model.h.
#pragma once

#include <string_view>

#include "colla/model.h"
#include "colla/status.h"

namespace colla::bench {

// As `colla train` trains them, with their metrics, which the peers do not compute, but without
// dropout.
Result<MakeModel> modelNamed(std::string_view name);

}  // namespace colla::bench
