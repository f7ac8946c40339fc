#include "child_runner.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace colla::cli {
namespace {

constexpr char kSelf[] = "/proc/self/exe";
constexpr int kNotStarted = 127;

[[noreturn]] void become(std::vector<char*>& words, pid_t parent, const sigset_t& mask) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kNotStarted);  // It died before the line above.
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execv(kSelf, words.data());
  std::fprintf(stderr, "colla: %s: %s\n", kSelf, std::strerror(errno));
  _exit(kNotStarted);
}

}  // namespace

ChildRunner::ChildRunner() {
  sigemptyset(&held_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&held_, signal);
  sigprocmask(SIG_BLOCK, &held_, &before_);
}

ChildRunner::~ChildRunner() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

Result<int> ChildRunner::run(const std::vector<std::string>& arguments) {
  std::string name = "colla";
  std::vector<std::string> copies = arguments;
  std::vector<char*> words = {name.data()};
  for (std::string& argument : copies) words.push_back(argument.data());
  words.push_back(nullptr);

  std::fflush(nullptr);  // Or the child would say it a second time.
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become(words, parent, before_);
  if (pid < 0) return {StatusCode::kIo, fmt::format("start a process: {}", std::strerror(errno))};
  return waitFor(pid);
}

int ChildRunner::waitFor(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    siginfo_t info{};
    const int signal = sigwaitinfo(&held_, &info);
    if (signal <= 0 || signal == SIGCHLD) continue;
    if (received_ == 0) received_ = signal;
    // The terminal has told the child already.
    if (info.si_code != SI_KERNEL) kill(pid, signal);
  }
  return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace colla::cli
