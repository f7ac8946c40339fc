// Which parameters a group is made of, and how it is trained.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "colla/optimizer.h"
#include "colla/status.h"

namespace colla::optim {

// The group of each of `names`, the model's parameters; nothing: it is in none. kInvalidArgument
// for a group that has no parameter, and for a parameter that is in two of them.
Result<std::vector<std::optional<std::size_t>>> groupsOf(std::span<const ParameterGroup> groups,
                                                         std::span<const std::string> names);

// The optimizer of a group that is trained, beside parameters that are trained with `base`.
OptimizerOptions optimizerOf(const ParameterGroup& group, const OptimizerOptions& base);

}  // namespace colla::optim
