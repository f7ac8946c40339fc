// The settings of a job: one table for all folders, and how they are loaded.
//
// The table stands here, and not in base, because a setting may take its values from a table of the
// folder that it belongs to, as `transport` does.
#pragma once

#include <map>
#include <span>
#include <string>

#include "base/config.h"
#include "colla/status.h"

namespace colla::job {

// All there are, sorted by name.
std::span<const Setting> settings();

// From `flags`, the environment and `file` or, if that is empty, the file that COLLA_CONFIG names.
// Includes checkSecretFile().
Result<Config> loadConfig(const std::map<std::string, std::string>& flags = {},
                          const std::string& file = "");

// kInvalidArgument for a secret file that others can read, or that has no secret, whether the job
// needs one or not: nobody would notice before it does.
Status checkSecretFile(const Config& config);

}  // namespace colla::job
