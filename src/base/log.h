// Log lines on standard error: time, level, and which rank on which host speaks.
//
//   log::warn("waiting for {}", name);   // 12:01:07.250 W rank 1 host a: waiting for rank 3 …
//
// Thread safe. The level comes from COLLA_LOG (debug, info, warn, error, off; info by default).
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "colla/status.h"

namespace colla::log {

enum class Level { kDebug, kInfo, kWarn, kError, kOff };

// "debug" … "off".
Result<Level> parseLevel(std::string_view text);
void setLevel(Level level);
bool enabled(Level level);

// Who speaks from now on in this process, such as "rank 1 host a"; empty for nobody.
void setSpeaker(std::string speaker);

void write(Level level, std::string_view message);

template <typename... Args>
void at(Level level, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(level)) write(level, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  at(Level::kDebug, format, std::forward<Args>(args)...);
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  at(Level::kInfo, format, std::forward<Args>(args)...);
}
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  at(Level::kWarn, format, std::forward<Args>(args)...);
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  at(Level::kError, format, std::forward<Args>(args)...);
}

}  // namespace colla::log
