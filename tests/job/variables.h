// The environment that a test hands to readEnvironment().
#pragma once

#include <map>
#include <string>

#include "job/environment.h"

namespace colla::job {

using Variables = std::map<std::string, std::string>;

inline Result<Place> read(const Variables& variables) {
  return readEnvironment([&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

}  // namespace colla::job
