// The numbers of samples that a data set is asked for.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "colla/status.h"

namespace colla::data {

// kInvalidArgument unless each is from 0 to size - 1; `title` names the data set.
Status checkIndices(std::string_view title, std::span<const std::int64_t> indices,
                    std::int64_t size);

}  // namespace colla::data
