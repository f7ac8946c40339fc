// A process that the benchmark started, and that never outlives it.
//
// It leads a process group of its own (so Ctrl-C on the terminal reaches the coordinator alone),
// is killed by the kernel when the coordinator dies, and with its whole group by the destructor.
// What it writes to its standard output and error is kept for messages.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "colla/status.h"

namespace colla::bench {

struct ProcessSpec {
  std::string name;  // For messages: "gloo rank 1".
  // What it does: a program with its arguments, or, without these, a function in a fork of this
  // process. Its result is the exit code.
  std::vector<std::string> program;
  std::function<int()> body;
  // Set on top of the coordinator's environment; nothing: unset.
  std::map<std::string, std::optional<std::string>> environment;
  // An open network namespace to run in; -1 for the coordinator's.
  int networkNamespace = -1;
};

// For a body: says what went wrong.
int exitCode(const Status& status);

class Process {
 public:
  static Result<Process> start(const ProcessSpec& spec);
  Process(Process&&) noexcept = default;
  Process& operator=(Process&&) = delete;
  ~Process() { end(usualPatience()); }

  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }
  // Readable once the process has ended.
  int exitFd() const { return exit_.get(); }
  // Readable when there is output; -1 once all of it has been read.
  int outputFd() const { return output_.get(); }

  // Reads what there is of its output, without waiting.
  void readOutput();
  // Waits for it. "exit code 1", "signal 9 (Killed)". Reads the rest of its output.
  std::string waitForExit();
  bool exitedWell() const { return exitStatus_ == 0; }
  // The last lines of its output, for a message that ends with them; empty if there are none.
  std::string lastLines() const;
  // All of its output that was kept.
  const std::string& output() const { return text_; }

  // Asks it to end (SIGTERM).
  void askToEnd();
  // Does so, and makes it (SIGKILL) when it has not by `patience`.
  void end(Deadline patience);
  static Deadline usualPatience();

 private:
  Process() = default;
  std::string name_;
  pid_t pid_ = -1;
  UniqueFd exit_;
  UniqueFd output_;
  std::string text_;
  std::optional<int> exitStatus_;
};

}  // namespace colla::bench
