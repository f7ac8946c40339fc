#include "launch/scratch.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace colla::launch {
namespace {

Result<std::string> makeDirectory(const std::string& parent) {
  std::string path = parent + "/colla-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return {StatusCode::kIo,
            fmt::format("make a directory in {}: {}", parent, std::strerror(errno))};
  }
  return path;
}

}  // namespace

Result<Scratch> Scratch::create() {
  const char* const chosen = std::getenv("TMPDIR");
  COLLA_TRY_ASSIGN(const std::string directory,
                   makeDirectory(chosen != nullptr && *chosen != '\0' ? chosen : "/tmp"));
  const auto made = makeDirectory("/dev/shm");
  const std::string inMemory = made.ok() ? *made : directory;
  auto guardian = Guardian::create({}, Inherited::current(), {directory, inMemory});
  if (!guardian.ok()) {
    std::filesystem::remove_all(directory);
    std::filesystem::remove_all(inMemory);
    return guardian.status();
  }
  return Scratch(directory, inMemory, *std::move(guardian));
}

const std::string& Scratch::directoryFor(std::size_t bytes) const {
  std::error_code error;
  const auto space = std::filesystem::space(memoryDirectory_, error);
  return !error && space.available > bytes + bytes / 4 ? memoryDirectory_ : directory_;
}

Result<std::string> Scratch::write(const std::string& file, std::string_view text) const {
  const std::string name = path(file);
  std::ofstream out(name, std::ios::binary);
  out << text;
  out.close();
  if (!out) return {StatusCode::kIo, fmt::format("write {}: {}", name, std::strerror(errno))};
  return name;
}

}  // namespace colla::launch
