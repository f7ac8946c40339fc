#include "rendezvous/secret_descriptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "rendezvous/secret.h"

namespace colla::rendezvous {
namespace {

constexpr char kName[] = "colla-secret";
constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

// Any other file may have got the number since.
bool isOurs(const std::string& path) {
  std::error_code error;
  const std::string target = std::filesystem::read_symlink(path, error);
  return !error && target.starts_with(std::string("/memfd:") + kName);
}

// 0 where there is none that we may see.
pid_t parentOf(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string word; file >> word;) {
    pid_t parent = 0;
    if (word == "PPid:" && file >> parent) return parent;
  }
  return 0;
}

}  // namespace

Result<UniqueFd> makeSecretDescriptor(const std::string& secret) {
  UniqueFd memory(memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto size = static_cast<ssize_t>(secret.size());
  if (!memory.valid() || pwrite(memory.get(), secret.data(), secret.size(), 0) != size ||
      fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) {
    return {StatusCode::kIo,
            fmt::format("no memory for the job's secret: {}", std::strerror(errno))};
  }
  return memory;
}

Result<std::string> readSecretDescriptor(int descriptor) {
  for (pid_t pid = getpid(); pid > 1; pid = parentOf(pid)) {
    const std::string path = fmt::format("/proc/{}/fd/{}", pid, descriptor);
    if (!isOurs(path)) continue;
    const UniqueFd memory(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 4096> bytes{};
    // From its beginning: a process may read it more than once.
    const ssize_t size = pread(memory.get(), bytes.data(), bytes.size(), 0);
    if (size >= static_cast<ssize_t>(kSecretBytes)) return std::string(bytes.data(), size);
  }
  return {StatusCode::kRefused,
          fmt::format("COLLA_SECRET_FD is {}, but neither this process nor one that it descends "
                      "from has the job's secret there: a program in between closed it",
                      descriptor)};
}

}  // namespace colla::rendezvous
