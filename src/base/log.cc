#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdlib>
#include <memory>

#include "base/thread_annotations.h"

namespace colla::log {
namespace {

spdlog::level::level_enum toSpdlog(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kOff:
      break;
  }
  return spdlog::level::off;
}

// The process's one logger. It is never destroyed, so that threads may log until the very end.
spdlog::logger& logger() {
  static spdlog::logger* const instance = [] {
    auto* created = new spdlog::logger("colla", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    created->set_pattern("%H:%M:%S.%e %L %v");
    const char* text = std::getenv("COLLA_LOG");
    const auto level = parseLevel(text == nullptr ? "info" : text);
    created->set_level(toSpdlog(level.ok() ? *level : Level::kInfo));
    return created;
  }();
  return *instance;
}

Mutex speakerMutex;
std::string& speakerLocked() COLLA_REQUIRES(speakerMutex) {
  static auto* const speaker = new std::string;
  return *speaker;
}

}  // namespace

Result<Level> parseLevel(std::string_view text) {
  if (text == "debug") return Level::kDebug;
  if (text == "info") return Level::kInfo;
  if (text == "warn") return Level::kWarn;
  if (text == "error") return Level::kError;
  if (text == "off") return Level::kOff;
  return {StatusCode::kInvalidArgument,
          fmt::format("log level \"{}\" is not one of debug, info, warn, error, off", text)};
}

void setLevel(Level level) { logger().set_level(toSpdlog(level)); }

bool enabled(Level level) { return logger().should_log(toSpdlog(level)); }

void setSpeaker(std::string speaker) {
  if (!speaker.empty()) speaker += ": ";
  const MutexLock lock(speakerMutex);
  speakerLocked() = std::move(speaker);
}

void write(Level level, std::string_view message) {
  std::string line;
  {
    const MutexLock lock(speakerMutex);
    line = speakerLocked();
  }
  line += message;
  logger().log(toSpdlog(level), line);
}

}  // namespace colla::log
