// Runs this program again with other arguments, as `colla demo` runs several trainings one after
// another: started, waited for, and never left behind.
//
// While it lives, signals that would end this process are held back, for run() to take. To be used
// by one thread.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "colla/status.h"

namespace colla::cli {

// What is added to a signal's number when an exit code tells of it.
inline constexpr int kSignalled = 128;

class ChildRunner {
 public:
  ChildRunner();
  ~ChildRunner();
  ChildRunner(const ChildRunner&) = delete;
  ChildRunner& operator=(const ChildRunner&) = delete;

  // Runs this program (`colla`) with `arguments` and waits for it; what it says is said where this
  // process speaks. A signal that reaches this process alone is passed on to it. It is killed when
  // this process dies. Returns its exit code, 128 + n for signal n.
  Result<int> run(const std::vector<std::string>& arguments);
  // The first signal that came during a run(); 0: none.
  int received() const { return received_; }

 private:
  int waitFor(pid_t pid);

  sigset_t held_{};
  sigset_t before_{};
  int received_ = 0;
};

}  // namespace colla::cli
