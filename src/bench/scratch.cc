#include "bench/scratch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace colla::bench {
namespace {

Result<std::string> makeDirectory(const std::string& parent) {
  std::string path = parent + "/colla-bench-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return {StatusCode::kIo,
            fmt::format("make a directory in {}: {}", parent, std::strerror(errno))};
  }
  return path;
}

[[noreturn]] void guard(int alive, const std::vector<std::string>& directories) {
  setsid();  // Ctrl-C on the terminal is not for the guard.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
  dup2(alive, STDIN_FILENO);
  close_range(STDIN_FILENO + 1, ~0U, 0);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
  }
  // Agents that are being killed right now may still add files for a moment.
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::error_code error;
    bool gone = true;
    for (const std::string& directory : directories) {
      std::filesystem::remove_all(directory, error);
      gone = gone && !error && !std::filesystem::exists(directory, error);
    }
    if (gone) break;
    usleep(50'000);
  }
  _exit(0);
}

}  // namespace

Result<Scratch> Scratch::create() {
  const char* const chosen = std::getenv("TMPDIR");
  Scratch scratch;
  COLLA_TRY_ASSIGN(scratch.directory_,
                   makeDirectory(chosen != nullptr && *chosen != '\0' ? chosen : "/tmp"));
  const auto inMemory = makeDirectory("/dev/shm");
  scratch.memoryDirectory_ = inMemory.ok() ? *inMemory : scratch.directory_;

  std::array<int, 2> pipe{};
  const pid_t pid = pipe2(pipe.data(), O_CLOEXEC) == 0 ? fork() : -1;
  if (pid == 0) guard(pipe[0], {scratch.directory_, scratch.memoryDirectory_});
  if (pid < 0) {
    std::filesystem::remove_all(scratch.directory_);
    std::filesystem::remove_all(scratch.memoryDirectory_);
    return {StatusCode::kIo, fmt::format("start a guard process: {}", std::strerror(errno))};
  }
  close(pipe[0]);
  scratch.alive_ = UniqueFd(pipe[1]);
  scratch.guard_ = pid;
  return scratch;
}

Scratch::~Scratch() {
  if (!alive_.valid()) return;  // Moved from.
  alive_.reset();
  while (waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
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

}  // namespace colla::bench
