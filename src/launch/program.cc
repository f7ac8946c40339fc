#include "launch/program.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace colla::launch {
namespace {

enum class Found { kNothing, kNotExecutable, kDirectory, kProgram };

Found look(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return Found::kNothing;
  if (S_ISDIR(info.st_mode)) return Found::kDirectory;
  return access(path.c_str(), X_OK) == 0 ? Found::kProgram : Found::kNotExecutable;
}

Status refusal(const std::string& path, Found found) {
  if (found == Found::kDirectory) {
    return {StatusCode::kRefused, fmt::format("{} is a directory, not a program", path)};
  }
  return {StatusCode::kRefused, fmt::format("{} is not executable (chmod +x makes it so)", path)};
}

}  // namespace

Result<std::string> findProgram(const std::string& name, std::string_view path) {
  if (name.find('/') != std::string::npos) {
    const Found found = look(name);
    if (found == Found::kProgram) return name;
    if (found != Found::kNothing) return refusal(name, found);
    return {StatusCode::kNotFound, fmt::format("there is no program {}", name)};
  }
  std::string blocked;  // A file of that name that cannot be run.
  while (!name.empty()) {
    const auto colon = path.find(':');
    const auto folder = path.substr(0, colon);
    const std::string candidate = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
    const Found found = look(candidate);
    if (found == Found::kProgram) return candidate;
    if (found == Found::kNotExecutable && blocked.empty()) blocked = candidate;
    if (colon == std::string_view::npos) break;
    path.remove_prefix(colon + 1);
  }
  if (!blocked.empty()) return refusal(blocked, Found::kNotExecutable);
  const bool here = !name.empty() && look("./" + name) == Found::kProgram;
  return {StatusCode::kNotFound,
          fmt::format("there is no program \"{}\" in PATH{}", name,
                      here ? fmt::format(" (did you mean ./{}?)", name) : "")};
}

}  // namespace colla::launch
