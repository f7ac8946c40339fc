// The token that readers of metrics from other hosts must show.
#pragma once

#include <string>
#include <string_view>

#include "colla/status.h"

namespace colla::observe {

// $XDG_STATE_HOME/colla/metrics-token, or the same in ~/.local/state.
Result<std::string> defaultTokenFile();

// The token in `path`. If there is no such file, makes it (mode 0600) with a random token, and its
// folder. kRefused for a file that other users can read or write, or that has no token in it.
Result<std::string> loadToken(const std::string& path);

// Takes as long for a wrong token as for the right one.
bool sameToken(std::string_view a, std::string_view b);

}  // namespace colla::observe
