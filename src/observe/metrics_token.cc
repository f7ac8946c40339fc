#include "observe/metrics_token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/unique_fd.h"

namespace colla::observe {
namespace {

constexpr std::size_t kLeast = 16;  // Characters of a token.
constexpr std::size_t kMost = 1024;

Status failed(const std::string& path, std::string_view what, int error) {
  return {StatusCode::kIo, fmt::format("token file {} {}: {}", path, what, std::strerror(error))};
}

Result<std::string> randomToken() {
  std::array<unsigned char, 32> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return {StatusCode::kIo, "no random bytes from the kernel"};
  }
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

// Written aside and linked, so that a job that starts at the same time finds a whole token or none.
Status makeFile(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  COLLA_TRY_ASSIGN(const std::string token, randomToken());
  std::string aside = path + ".XXXXXX";
  const UniqueFd fd(mkostemp(aside.data(), O_CLOEXEC));  // Mode 0600.
  if (!fd.valid()) return failed(path, "cannot be made", errno);
  const std::string line = token + "\n";
  const bool written =
      write(fd.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const bool linked = written && link(aside.c_str(), path.c_str()) == 0;
  const int error = errno;
  unlink(aside.c_str());
  if (!linked && (!written || error != EEXIST)) return failed(path, "cannot be made", error);
  return {};
}

}  // namespace

Result<std::string> defaultTokenFile() {
  const char* const state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return std::string(state) + "/colla/metrics-token";
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home == '/') {
    return std::string(home) + "/.local/state/colla/metrics-token";
  }
  return {StatusCode::kInvalidArgument,
          "no place for the token of the metrics: HOME is not set; use --metrics-token-file"};
}

Result<std::string> loadToken(const std::string& path) {
  const auto refused = [&](std::string_view what) -> Status {
    return {StatusCode::kRefused, fmt::format("token file {} {}", path, what)};
  };
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid() && errno == ENOENT) {
    COLLA_TRY(makeFile(path));
    fd.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  }
  if (!fd.valid()) return failed(path, "cannot be read", errno);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return refused("is not a file");
  if (info.st_uid != geteuid()) return refused("belongs to a different user");
  if ((info.st_mode & 077) != 0) {
    return refused("can be read or written by others; run `chmod 600` on it");
  }
  std::string token(kMost + 1, '\0');
  const ssize_t size = read(fd.get(), token.data(), token.size());
  if (size < 0) return failed(path, "cannot be read", errno);
  token.resize(static_cast<std::size_t>(size));
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  if (token.size() < kLeast || token.size() > kMost) {
    return refused(fmt::format("has no token of {} to {} characters in it", kLeast, kMost));
  }
  return token;
}

bool sameToken(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

}  // namespace colla::observe
