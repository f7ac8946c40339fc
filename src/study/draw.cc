#include "study/draw.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "launch/program.h"
#include "study/run.h"

namespace colla::study {
namespace {

namespace fs = std::filesystem;

// The exit code of `python ARGUMENTS`, with the package in its path.
int runPython(const std::string& python, const std::string& package,
              const std::vector<std::string>& arguments, bool silent) {
  std::string path = package;
  if (const char* const inherited = std::getenv("PYTHONPATH"); inherited != nullptr) {
    path += std::string(":") + inherited;
  }
  std::vector<std::string> words = {python};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    setenv("PYTHONPATH", path.c_str(), 1);
    if (silent) {
      const int null = open("/dev/null", O_WRONLY);
      dup2(null, STDOUT_FILENO);
      dup2(null, STDERR_FILENO);
    }
    execv(python.c_str(), pointers.data());
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Where `colla.study` lies: in a wheel, in the build tree, or where `./colla install` put it.
std::string packageFolder(const fs::path& bin) {
  for (const char* const place : {"../..", "../python", "../share/colla/python"}) {
    std::error_code error;
    const fs::path folder = fs::weakly_canonical(bin / place, error);
    if (!error && fs::exists(folder / "colla" / "study" / "__main__.py", error)) return folder;
  }
  return "";
}

}  // namespace

Result<Drawer> Drawer::find() {
  const fs::path bin = fs::path(pathOfColla()).parent_path();
  Drawer drawer;
  drawer.package = packageFolder(bin);
  const char* const chosen = std::getenv("COLLA_PYTHON");
  const char* const path = std::getenv("PATH");
  std::vector<std::string> candidates;
  if (chosen != nullptr && *chosen != '\0') {
    const auto found = launch::findProgram(chosen, path == nullptr ? "" : path);
    candidates.push_back(found.ok() ? *found : chosen);
  } else {
    candidates.push_back(bin / ".." / ".." / ".venv" / "bin" / "python");
    const auto found = launch::findProgram("python3", path == nullptr ? "" : path);
    if (found.ok()) candidates.push_back(*found);
  }
  for (const std::string& candidate : candidates) {
    drawer.python = candidate;
    if (access(candidate.c_str(), X_OK) == 0 &&
        runPython(candidate, drawer.package, {"-c", "import colla.study, matplotlib"}, true) == 0) {
      return drawer;
    }
  }
  return {
      StatusCode::kUnsupported,
      fmt::format("{} cannot draw: it needs matplotlib (pip install \"colla[study]\", or name a "
                  "Python that has it: COLLA_PYTHON=…)",
                  candidates.back())};
}

int Drawer::run(const std::vector<std::string>& arguments) const {
  std::vector<std::string> words = {"-P", "-m", "colla.study"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return runPython(python, package, words, false);
}

}  // namespace colla::study
