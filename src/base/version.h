// Colla's version, such as "0.1.0".
#pragma once

#include <string_view>

namespace colla {

std::string_view version();

}  // namespace colla
