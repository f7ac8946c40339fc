// Runs the real `colla`, or another program, for a test, with a mark in its environment that all of
// its processes inherit: whatever carries it belongs to this run.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/thread_annotations.h"
#include "base/unique_fd.h"
#include "support/eventually.h"

namespace colla::launch {

using test::eventually;

struct MarkedProcess {
  pid_t pid = 0;
  char state = '?';
  std::string name;
  std::string environment;  // NUL between entries.

  bool has(const std::string& variable) const;
};

class CollaProcess {
 public:
  struct Options {
    std::string program = COLLA_BINARY;
    std::string input = "";    // For its standard input.
    bool keepInput = false;    // More may follow, by type().
    bool readOutput = true;    // Otherwise nobody reads its standard output.
    bool terminal = false;     // Its input and outputs are a terminal; out() has all it says.
    int columns = 80;          // Of that terminal.
    std::string wrapper = "";  // A shell line that ends up running "$@".
  };
  explicit CollaProcess(const std::vector<std::string>& arguments);
  CollaProcess(const std::vector<std::string>& arguments, const Options& options);
  // Kills what is left of it.
  ~CollaProcess();

  pid_t pid() const { return pid_; }
  // Living processes of this run, itself included.
  std::vector<MarkedProcess> processes() const;
  // The guardian, or the worker ("ps": server) with that rank; 0 if there is none.
  pid_t guardian() const;
  pid_t worker(int rank) const { return member("worker", rank); }
  pid_t member(const std::string& role, int rank) const;
  // No process of this run is left.
  bool gone() const;

  std::string out();
  std::string err();
  // Its standard output had `text` in it, in time.
  bool says(const std::string& text, int times = 1);
  // The same of its standard error.
  bool complains(const std::string& text);
  // On its terminal, or to an input that was kept.
  void type(const std::string& text);
  // Its terminal's window.
  void resize(int columns);
  // Its reader goes away.
  void closeOutput();

  // Waits for its end (and fails the test if that takes too long): the exit code, or -signal.
  int wait();

 private:
  void collect(int fd, std::string CollaProcess::*into);

  std::string mark_;
  pid_t pid_ = -1;
  bool waited_ = false;
  UniqueFd inPipe_;
  UniqueFd outPipe_;
  UniqueFd errPipe_;
  Mutex mutex_;
  std::string out_ COLLA_GUARDED_BY(mutex_);
  std::string err_ COLLA_GUARDED_BY(mutex_);
  std::vector<std::thread> readers_;
};

// What a process said, and how it ended.
struct Ended {
  int code = 0;  // Exit code, or -signal.
  std::string out;
  std::string err;
};
Ended runToEnd(const std::vector<std::string>& arguments,
               const CollaProcess::Options& options = {});

}  // namespace colla::launch
