#include "launch/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "base/unique_fd.h"

namespace colla::launch {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// dup2() that also works in place, where it would leave the descriptor to be closed by exec.
bool moveTo(int from, int to) {
  if (from == to) return fcntl(to, F_SETFD, 0) == 0;
  return dup2(from, to) == to;
}

// In the new process: what both programs and bodies start with.
bool settle(const Command& command) {
  return (command.networkNamespace < 0 || setns(command.networkNamespace, CLONE_NEWNET) == 0) &&
         moveTo(command.input, STDIN_FILENO) && moveTo(command.output, STDOUT_FILENO) &&
         moveTo(command.error, STDERR_FILENO) &&
         (command.secret < 0 || fcntl(command.secret, F_SETFD, 0) == 0);
}

}  // namespace

Inherited Inherited::current() {
  Inherited inherited;
  pthread_sigmask(SIG_SETMASK, nullptr, &inherited.mask);
  sigaction(SIGPIPE, nullptr, &inherited.brokenPipe);
  getrlimit(RLIMIT_NOFILE, &inherited.files);
  return inherited;
}

void Inherited::restore() const {
  sigaction(SIGPIPE, &brokenPipe, nullptr);
  setrlimit(RLIMIT_NOFILE, &files);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
}

Spawned spawn(const Command& command, const Inherited& inherited) {
  const auto arguments = pointers(command.arguments);
  const auto environment = pointers(command.environment);
  // Scripts without a first line that names an interpreter are the shell's.
  std::vector<std::string> script = {"/bin/sh", command.program};
  if (!command.body) {
    script.insert(script.end(), command.arguments.begin() + 1, command.arguments.end());
  }
  const auto scriptArguments = pointers(script);

  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {-1, errno};
  const UniqueFd failure(ends[0]);
  UniqueFd report(ends[1]);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return {-1, errno};
  if (pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // It died before it could take us along.
    inherited.restore();
    if (settle(command)) {
      if (command.body) {
        close_range(STDERR_FILENO + 1, ~0U, 0);  // The report too, as exec would.
        const int code = command.body();
        std::fflush(nullptr);
        _exit(code);
      }
      execve(command.program.c_str(), arguments.data(), environment.data());
      if (errno == ENOEXEC) execve("/bin/sh", scriptArguments.data(), environment.data());
    }
    const int error = errno;
    (void)!write(report.get(), &error, sizeof(error));
    _exit(127);
  }
  setpgid(pid, pid);  // Here too, so that the group exists whoever comes first.
  report.reset();
  int error = 0;
  ssize_t size = 0;
  do {
    size = read(failure.get(), &error, sizeof(error));
  } while (size < 0 && errno == EINTR);
  if (size != sizeof(error)) return {pid, 0};  // exec closed the pipe.
  waitpid(pid, nullptr, 0);
  return {-1, error};
}

}  // namespace colla::launch
