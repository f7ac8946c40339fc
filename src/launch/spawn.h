// Starts one process of a job from the guardian.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "colla/status.h"

namespace colla::launch {

// What `colla run` changed about itself and its program should not inherit.
struct Inherited {
  sigset_t mask{};
  struct sigaction brokenPipe {};
  rlimit files{};

  static Inherited current();
  // In a new process, before exec.
  void restore() const;
};

struct Command {
  std::string program;  // A path.
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  int input = -1;
  int output = -1;
  int error = -1;
  // Runs in the new process instead of `program`, with the parent's environment; its result is the
  // exit code. Of the parent's descriptors it has the three above alone.
  std::function<int()> body = {};
  // An open network namespace to run in; -1: the parent's.
  int networkNamespace = -1;
  // Has the job's secret, and is inherited under its number; -1: none.
  int secret = -1;
};

struct Spawned {
  pid_t pid = -1;
  int error = 0;  // The errno of what failed; then there is no process.
};

// Starts `command` as the leader of a process group of its own, to be killed when the calling
// thread ends. Returns when the program runs or cannot. The calling process must have one thread.
Spawned spawn(const Command& command, const Inherited& inherited);

}  // namespace colla::launch
