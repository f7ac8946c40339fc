// What a call that should fail says.
#pragma once

#include <string>

#include "colla/status.h"

namespace colla::test {

// The error's message, or "fine" where there is none, which no message is.
template <typename T>
std::string errorOf(const Result<T>& result) {
  return result.ok() ? "fine" : std::string(result.status().message());
}

}  // namespace colla::test
