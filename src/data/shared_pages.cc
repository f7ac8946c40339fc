#include "data/shared_pages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace colla::data {
namespace {

constexpr std::size_t kPiece = 16 << 20;
constexpr int kPageSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

Status pageError(StatusCode code, std::string_view what) {
  return {code, fmt::format("{}: {}", what, std::strerror(errno))};
}

// All of `pages`, piece by piece: `body(piece, offset)`.
template <typename Body>
Status forPieces(std::span<std::byte> pages, std::size_t offset, const Body& body) {
  for (std::size_t at = 0; at < pages.size(); at += kPiece) {
    COLLA_TRY(body(pages.subspan(at, std::min(kPiece, pages.size() - at)), offset + at));
  }
  return {};
}

Status writeAll(int fd, std::span<const std::byte> bytes, std::size_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return pageError(StatusCode::kNoMemory, "can't fill shared pages");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::size_t>(written);
  }
  return {};
}

// Bytes of the file, for this process to read; unmaps itself unless it was moved away.
class Window {
 public:
  static Result<Window> open(int fd, std::size_t offset, std::size_t size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd,
                        static_cast<off_t>(offset));
    if (memory == MAP_FAILED) return pageError(StatusCode::kNoMemory, "can't map shared pages");
    return Window({static_cast<std::byte*>(memory), size});
  }
  Window(Window&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  ~Window() {
    if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  }

  std::span<const std::byte> bytes() const { return bytes_; }
  // Takes the place of `pages`, which are as long. One call of the kernel's, so that other threads
  // see the bytes of before or these, which are the same.
  Status moveTo(std::span<std::byte> pages) {
    if (mremap(bytes_.data(), bytes_.size(), bytes_.size(), MREMAP_MAYMOVE | MREMAP_FIXED,
               pages.data()) == MAP_FAILED) {
      return pageError(StatusCode::kInternal, "can't put shared pages in their place");
    }
    bytes_ = {};
    return {};
  }

 private:
  explicit Window(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

// The kernel would end a process that writes a larger file (SIGXFSZ).
bool mayWrite(std::size_t bytes) {
  rlimit largest{};
  return getrlimit(RLIMIT_FSIZE, &largest) == 0 && bytes <= largest.rlim_cur;
}

}  // namespace

void PagesDeleter::operator()(std::byte* /*data*/) const { munmap(pages.data(), pages.size()); }

Pages pagesOf(std::span<const Array> arrays) {
  Pages found;
  for (const Array& array : arrays) {
    const auto* owner = std::get_deleter<PagesDeleter>(array.owner());
    if (owner == nullptr) continue;
    const auto same = [&](std::span<std::byte> known) {
      return known.data() == owner->pages.data();
    };
    if (std::ranges::none_of(found, same)) found.push_back(owner->pages);
  }
  return found;
}

Result<UniqueFd> publishPages(const Pages& pages) {
  std::size_t total = 0;
  for (const auto& part : pages) total += part.size();
  if (!mayWrite(total)) return {StatusCode::kNoMemory, "the limit for files is lower (ulimit -f)"};
  UniqueFd file(memfd_create("colla-data", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return pageError(StatusCode::kIo, "can't create shared pages");
  std::size_t offset = 0;
  const auto publish = [&](std::span<std::byte> piece, std::size_t at) -> Status {
    COLLA_TRY(writeAll(file.get(), piece, at));
    COLLA_TRY_ASSIGN(Window window, Window::open(file.get(), at, piece.size()));
    return window.moveTo(piece);
  };
  for (const auto& part : pages) {
    COLLA_TRY(forPieces(part, offset, publish));
    offset += part.size();
  }
  if (fcntl(file.get(), F_ADD_SEALS, kPageSeals) != 0) {
    return pageError(StatusCode::kIo, "can't seal shared pages");
  }
  return file;
}

Result<UniqueFd> openPages(const std::string& file) {
  UniqueFd opened(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.valid()) return pageError(StatusCode::kIo, "can't open " + file);
  const int seals = fcntl(opened.get(), F_GET_SEALS);
  if (seals == -1 || (seals & kPageSeals) != kPageSeals) {
    return {StatusCode::kRefused, file + " may still change"};
  }
  return opened;
}

Result<std::size_t> adoptPages(const UniqueFd& file, std::size_t offset,
                               std::span<std::byte> pages) {
  struct stat facts {};
  if (fstat(file.get(), &facts) != 0 ||
      static_cast<std::size_t>(facts.st_size) < offset + pages.size()) {
    return {StatusCode::kRefused, "shared pages end too early"};
  }
  std::size_t shared = 0;
  const auto adopt = [&](std::span<std::byte> piece, std::size_t at) -> Status {
    COLLA_TRY_ASSIGN(Window window, Window::open(file.get(), at, piece.size()));
    if (std::memcmp(window.bytes().data(), piece.data(), piece.size()) != 0) return {};
    COLLA_TRY(window.moveTo(piece));
    shared += piece.size();
    return {};
  };
  COLLA_TRY(forPieces(pages, offset, adopt));
  return shared;
}

}  // namespace colla::data
