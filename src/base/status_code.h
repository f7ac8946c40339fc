// A status's code on its way between processes.
#pragma once

#include <cstdint>
#include <optional>

#include "colla/status.h"

namespace colla {

// The error that another process wrote down as `number`; nothing for a number that is none.
std::optional<StatusCode> errorCode(std::uint8_t number);

}  // namespace colla
