// Processes that a benchmark or a study starts together. They are one job of the guardian
// (launch/guardian.h), so none of them outlives this process, whatever happens to it. What they
// write to their standard output and error is kept for messages.
//
// Not thread safe, and to be used in a process with one thread, because it forks.
#pragma once

#include <poll.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "colla/status.h"
#include "launch/guardian.h"
#include "launch/spawn.h"
#include "launch/tail.h"

namespace colla::launch {

// Descriptors to wait for, each with what to do when it is readable.
class Watch {
 public:
  void add(int fd, std::function<void()> react);
  // Waits once, for at most `limit`.
  void wait(std::chrono::nanoseconds limit);

 private:
  std::vector<pollfd> fds_;
  std::vector<std::function<void()>> reactions_;
};

struct ProcessSpec {
  std::string name;  // For messages: "gloo rank 1".
  // A program with its arguments, or a function that runs in a fork of this process and returns the
  // exit code.
  std::vector<std::string> program = {};
  std::function<int()> body = {};
  // Set on top of this process's environment.
  std::map<std::string, std::string> environment = {};
  int networkNamespace = -1;  // As Command has it.
  // Called with each line that it writes; may be empty.
  std::function<void(const std::string& line)> heard = {};
};

// For a body: says what went wrong.
int exitCode(const Status& status);

class Processes {
 public:
  struct One {
    std::string name;
    pid_t pid = -1;                  // -1 before it runs.
    std::optional<std::string> end;  // "exit code 1", "signal 9 (Killed)"; nothing while it runs.
    bool failed = false;             // Its end was not exit code 0.
    UniqueFd output;                 // Invalid once all was read.
    std::string line;                // What came after the last newline.
    Tail tail;
    std::function<void(const std::string& line)> heard;
  };

  // `inherited`: the signals and limits that the processes get. Their start is under way when this
  // returns.
  static Result<std::unique_ptr<Processes>> start(std::span<const ProcessSpec> specs,
                                                  const Inherited& inherited);
  // Asks them to end (SIGTERM) and after two seconds makes them.
  ~Processes();
  void askToEnd();

  std::span<const One> all() const { return all_; }
  bool allEnded() const;
  // Output and ends are taken in when `watch` waits, which must be over before this object is.
  void addTo(Watch& watch);

  // "NAME ended with END", with its last lines.
  static std::string obituary(const One& one);

 private:
  Processes(std::vector<One> all, Guardian guardian)
      : all_(std::move(all)), guardian_(std::move(guardian)) {}
  static void readOutput(One& one);
  void takeEvents();
  void ended(One& one, std::string end, bool failed);

  std::vector<One> all_;
  Guardian guardian_;
  std::optional<Deadline> patience_;  // Since askToEnd().
};

}  // namespace colla::launch
