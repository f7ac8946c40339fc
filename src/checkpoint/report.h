// What compare and inspect found, as text for people and as JSON.
#pragma once

#include <string>

#include "checkpoint/compare.h"
#include "checkpoint/inspect.h"

namespace colla::checkpoint {

// Notes, one row per tensor, and a last line that says it all.
std::string table(const Comparison& comparison);
std::string table(const Inspection& inspection);

// The same, as one JSON object. Numbers that JSON has not (infinite, NaN) are null.
std::string toJson(const Comparison& comparison);
std::string toJson(const Inspection& inspection);

}  // namespace colla::checkpoint
