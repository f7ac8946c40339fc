// The error for a file that is not what it has to be; `what` has no file's name in front.
#pragma once

#include <string>
#include <string_view>

#include "colla/status.h"

namespace colla::foreign {

inline Status damaged(std::string_view what) { return {StatusCode::kIo, std::string(what)}; }

}  // namespace colla::foreign
