#include "rendezvous/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/unique_fd.h"
#include "transport/net/keys.h"

namespace colla::rendezvous {
namespace {

constexpr std::size_t kMaxFile = 4096;

Status refused(std::string message) { return {StatusCode::kRefused, std::move(message)}; }

Result<std::string> fromHex(std::string_view hex) {
  auto secret = bytesFromHex(hex);
  if (!secret || secret->size() < kSecretBytes) {
    return refused(
        "COLLA_SECRET is not a secret of at least 64 hexadecimal digits: `openssl rand -hex 32` "
        "makes one");
  }
  return *std::move(secret);
}

Result<std::string> fromFile(const std::string& path) {
  const auto complain = [&](std::string_view what) {
    return refused(fmt::format("secret file {} {}", path, what));
  };
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return complain(fmt::format("cannot be read: {}", std::strerror(errno)));
  struct stat info {};
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return complain("is not a file");
  if (info.st_uid != geteuid()) return complain("belongs to another user");
  if ((info.st_mode & 077) != 0) {
    return complain("can be read or written by others; run `chmod 600` on it");
  }
  std::string secret(kMaxFile + 1, '\0');
  const ssize_t size = read(fd.get(), secret.data(), secret.size());
  if (size < 0) return complain(fmt::format("cannot be read: {}", std::strerror(errno)));
  if (static_cast<std::size_t>(size) > kMaxFile) {
    return complain(fmt::format("is longer than {} bytes", kMaxFile));
  }
  secret.resize(static_cast<std::size_t>(size));
  secret.erase(secret.find_last_not_of(" \t\r\n") + 1);
  if (secret.size() < kSecretBytes) {
    return complain(
        fmt::format("has {} bytes, which is too short: `openssl rand -hex 32` makes a "
                    "good one",
                    secret.size()));
  }
  return secret;
}

}  // namespace

std::string makeSecret() {
  std::string secret(kSecretBytes, '\0');
  transport::net::fillRandom(std::as_writable_bytes(std::span(secret)));
  return secret;
}

std::string secretToHex(const std::string& secret) {
  std::string hex;
  for (const char c : secret) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return hex;
}

std::optional<std::string> bytesFromHex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(hex.data() + i, hex.data() + i + 2, value, 16);
    if (error != std::errc() || end != hex.data() + i + 2) break;
    bytes += static_cast<char>(value);
  }
  if (bytes.size() * 2 != hex.size()) return std::nullopt;
  return bytes;
}

Result<std::string> loadSecret(const char* hex, const std::string& path) {
  if (hex != nullptr && *hex != '\0') return fromHex(hex);
  if (!path.empty()) return fromFile(path);
  return std::string();
}

}  // namespace colla::rendezvous
