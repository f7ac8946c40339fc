// The error for what a caller or user asked for and cannot have.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "colla/status.h"

namespace colla {

template <typename... Args>
Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return {StatusCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace colla
