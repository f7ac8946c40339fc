#include "transport/shm/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

namespace colla::transport::shm {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = 2 << 20;
constexpr std::size_t kReserveStep = kHugePage;  // In less time than between two signals.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// Left to the rest of the system: asking for the last page would wake the kernel's killer.
constexpr std::size_t kMargin = 64 << 20;

std::string inMiB(std::size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

Status systemError(StatusCode code, std::string_view what) {
  const int error = errno;
  return {code, fmt::format("{}: {}{}", what, std::strerror(error),
                            error == EMFILE ? "; raise `ulimit -n`" : "")};
}

// A file that holds one number; nothing when there is none ("max").
std::size_t numberIn(const std::string& path, std::size_t otherwise) {
  std::ifstream file(path);
  std::size_t value = 0;
  return file >> value ? value : otherwise;
}

// The value after `key` in a file of "key value" lines; 0 when there is none.
std::size_t valueOf(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string name;
  for (std::size_t value = 0; file >> name >> value;) {
    if (name == key) return value;
  }
  return 0;
}

// What a control group's limit leaves, not counting files that it only keeps for later.
std::size_t roomIn(const std::filesystem::path& group, bool unified) {
  constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
  const std::string folder = group.string() + "/";
  const std::size_t limit =
      numberIn(folder + (unified ? "memory.max" : "memory.limit_in_bytes"), kUnlimited);
  const std::size_t used =
      numberIn(folder + (unified ? "memory.current" : "memory.usage_in_bytes"), 0);
  const std::size_t kept =
      valueOf(folder + "memory.stat", unified ? "inactive_file" : "total_inactive_file");
  const std::size_t held = used - std::min(used, kept);
  return limit - std::min(limit, held);
}

// The least of what the control groups of this process leave, and those that they are in.
std::size_t controlGroupRoom() {
  std::size_t room = std::numeric_limits<std::size_t>::max();
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t path = line.find(":/");
    if (path == std::string::npos) continue;
    const bool unified = line.starts_with("0::");
    if (!unified && line.find(":memory:") == std::string::npos) continue;
    const std::filesystem::path top = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    std::filesystem::path group = line.substr(path + 1);
    while (true) {
      room = std::min(room, roomIn(top / group.relative_path(), unified));
      if (!group.has_relative_path()) break;
      group = group.parent_path();
    }
  }
  return room;
}

// Reserves every page now; an error number, or 0. A signal may interrupt it, upon which some
// kernels (before 6.10) give back all that the call had reserved: whole segments might never be
// done.
int reserve(int fd, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t step = std::min(kReserveStep, bytes - at);
    const int error = posix_fallocate(fd, static_cast<off_t>(at), static_cast<off_t>(step));
    if (error != 0 && error != EINTR) return error;
    if (error == 0) at += step;
  }
  return 0;
}

}  // namespace

std::size_t availableMemory() {
  std::ifstream file("/proc/meminfo");
  std::size_t available = std::numeric_limits<std::size_t>::max();
  for (std::string key; file >> key;) {
    std::size_t kilobytes = 0;
    if (key == "MemAvailable:" && file >> kilobytes) available = kilobytes << 10;
    std::getline(file, key);
  }
  return std::min(available, controlGroupRoom());
}

Segment::Segment(Segment&& other) noexcept
    : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Segment::~Segment() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

Result<Segment> Segment::create(std::size_t bytes) {
  const std::size_t available = availableMemory();
  if (bytes > available || available - bytes < kMargin) {
    return {StatusCode::kNoMemory,
            fmt::format("a shared segment of {} does not fit into the {} that are free",
                        inMiB(bytes), inMiB(available))};
  }
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  // The kernel would end the process (SIGXFSZ).
  rlimit largest{};
  if (getrlimit(RLIMIT_FSIZE, &largest) == 0 && rounded > largest.rlim_cur) {
    return {StatusCode::kNoMemory,
            fmt::format("a shared segment of {} is above the limit of {} for files: raise "
                        "`ulimit -f`",
                        inMiB(rounded), inMiB(largest.rlim_cur))};
  }
  Segment segment;
  segment.fd_.reset(memfd_create("colla", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!segment.fd_.valid()) return systemError(StatusCode::kIo, "can't create a shared segment");
  if (const int error = reserve(segment.fd_.get(), rounded); error != 0) {
    return {StatusCode::kNoMemory, fmt::format("can't reserve a shared segment of {}: {}",
                                               inMiB(rounded), std::strerror(error))};
  }
  if (fcntl(segment.fd_.get(), F_ADD_SEALS, kSeals) != 0) {
    return systemError(StatusCode::kIo, "can't seal a shared segment");
  }
  COLLA_TRY(segment.map(rounded));
  return segment;
}

Result<Segment> Segment::attach(UniqueFd fd, std::size_t bytes) {
  Segment segment;
  segment.fd_ = std::move(fd);
  struct stat facts {};
  // The kernel may add seals of its own (vm.memfd_noexec).
  const int seals = fcntl(segment.fd_.get(), F_GET_SEALS);
  if (fstat(segment.fd_.get(), &facts) != 0 || static_cast<std::size_t>(facts.st_size) != bytes ||
      seals == -1 || (seals & kSeals) != kSeals) {
    return {StatusCode::kRefused, "a peer passed a segment that is not what it says"};
  }
  COLLA_TRY(segment.map(bytes));
  segment.fd_.reset();
  return segment;
}

Status Segment::map(std::size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_.get(), 0);
  if (memory == MAP_FAILED) return systemError(StatusCode::kNoMemory, "can't map a segment");
  bytes_ = {static_cast<std::byte*>(memory), bytes};
  // Where the system grants huge pages for shared memory, large segments should have them.
  if (bytes >= kHugePage) static_cast<void>(madvise(memory, bytes, MADV_HUGEPAGE));
  return {};
}

}  // namespace colla::transport::shm
