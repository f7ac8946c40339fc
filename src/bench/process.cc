#include "bench/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace colla::bench {
namespace {

constexpr std::size_t kKeptOutput = 64 * 1024;
constexpr int kLastLines = 12;
constexpr std::chrono::milliseconds kGrace{2000};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  _exit(127);
}

// In the child: everything that must be so before its program starts.
void settle(const ProcessSpec& spec, pid_t coordinator, int output) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != coordinator) _exit(127);  // It died before the line above.

  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_DFL);

  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (spec.networkNamespace >= 0 && setns(spec.networkNamespace, CLONE_NEWNET) != 0) {
    fail("enter the network namespace");
  }
  close_range(STDERR_FILENO + 1, ~0U, 0);
  for (const auto& [name, value] : spec.environment) {
    if (value) {
      setenv(name.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name.c_str());
    }
  }
}

[[noreturn]] void runChild(const ProcessSpec& spec) {
  if (spec.program.empty()) {
    const int code = spec.body();
    std::fflush(nullptr);
    _exit(code);
  }
  std::vector<char*> arguments;
  for (const std::string& word : spec.program) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  fail(arguments[0]);
}

}  // namespace

int exitCode(const Status& status) {
  if (!status.ok()) fmt::print(stderr, "{}\n", toString(status));
  return status.ok() ? 0 : 1;
}

Result<Process> Process::start(const ProcessSpec& spec) {
  std::array<int, 2> pipe{};
  if (pipe2(pipe.data(), O_CLOEXEC) != 0) {
    return {StatusCode::kIo, fmt::format("start {}: {}", spec.name, std::strerror(errno))};
  }
  UniqueFd readEnd(pipe[0]);
  const UniqueFd writeEnd(pipe[1]);
  fcntl(readEnd.get(), F_SETFL, O_NONBLOCK);

  std::fflush(nullptr);  // Or the child would write it a second time.
  const pid_t coordinator = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    settle(spec, coordinator, writeEnd.get());
    runChild(spec);
  }
  if (pid < 0) {
    return {StatusCode::kIo, fmt::format("start {}: {}", spec.name, std::strerror(errno))};
  }
  setpgid(pid, pid);  // Here as well: it must be so before anybody signals the group.
  Process process;
  process.name_ = spec.name;
  process.pid_ = pid;
  process.exit_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  process.output_ = std::move(readEnd);
  if (!process.exit_.valid()) {
    return {StatusCode::kIo, fmt::format("watch {}: {}", spec.name, std::strerror(errno))};
  }
  return process;
}

void Process::readOutput() {
  std::array<char, 4096> buffer;
  while (output_.valid()) {
    const ssize_t count = read(output_.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      output_.reset();
      return;
    }
    text_.append(buffer.data(), static_cast<std::size_t>(count));
    if (text_.size() > 2 * kKeptOutput) text_.erase(0, text_.size() - kKeptOutput);
  }
}

std::string Process::waitForExit() {
  if (!exitStatus_) {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    exitStatus_ = status;
  }
  readOutput();
  if (WIFSIGNALED(*exitStatus_)) {
    const int signal = WTERMSIG(*exitStatus_);
    return fmt::format("signal {} ({})", signal, strsignal(signal));
  }
  return fmt::format("exit code {}", WEXITSTATUS(*exitStatus_));
}

std::string Process::lastLines() const {
  std::size_t end = text_.size();
  while (end > 0 && text_[end - 1] == '\n') --end;
  std::size_t begin = end;
  for (int lines = 0; begin > 0; --begin) {
    if (text_[begin - 1] == '\n' && ++lines == kLastLines) break;
  }
  return text_.substr(begin, end - begin);
}

Deadline Process::usualPatience() { return Deadline::after(kGrace); }

void Process::askToEnd() {
  if (exit_.valid() && !exitStatus_) kill(pid_, SIGTERM);
}

void Process::end(Deadline patience) {
  if (!exit_.valid()) return;  // Moved from, or ended before.
  askToEnd();
  if (!exitStatus_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(patience.remaining());
    pollfd ended{exit_.get(), POLLIN, 0};
    poll(&ended, 1, static_cast<int>(left.count()));
  }
  kill(-pid_, SIGKILL);  // What it left behind in its group, too.
  waitForExit();
  exit_.reset();
}

}  // namespace colla::bench
