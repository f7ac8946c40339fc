// What a job's processes say: read from pipes, shown with prefixes, written to files, and its last
// lines kept for the report.
//
// Nothing here blocks but writing to files: when our own output is not read, that of the processes
// is not read either, and they wait. Not thread safe.
#pragma once

#include <poll.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "colla/status.h"
#include "launch/line_printer.h"
#include "launch/plan.h"
#include "launch/spawn.h"
#include "launch/tail.h"
#include "launch/verbatim.h"

namespace colla::launch {

enum Stream { kOut = 0, kErr = 1 };

// One of our own descriptors, with what still has to go there.
class QueuedOutput {
 public:
  explicit QueuedOutput(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  // Where to append.
  std::string& queue() { return queue_; }
  // Nothing is left to write: what comes after giveUp() is dropped, if not at once.
  bool empty() const { return queue_.empty() || error_ != 0; }
  bool full() const { return queue_.size() > 256 * 1024; }
  // Why nothing goes there any more, as an errno; EPIPE: nobody reads it. 0: all is well.
  int error() const { return error_; }
  // What is and will be queued is dropped.
  void giveUp(int error);
  // Writes what goes without waiting.
  void flush();

 private:
  int fd_;
  std::string queue_;
  int error_ = 0;
};

class Output {
 public:
  // Makes the pipes and, if the options name a directory, the files there.
  static Result<Output> create(const Plan& plan, const RunOptions& options);

  // The writing ends for `process`, until closeWriters().
  int writer(std::size_t process, Stream stream) const;
  void closeWriters();

  // What to wait for, to be followed by handle() with the same entries. Adds to `polls`.
  void prepare(std::vector<pollfd>& polls);
  void handle(const pollfd* polls, TimePoint now);
  // Between the two: when to call handle() even if nothing is ready.
  TimePoint nextDeadline() const;

  // What a process on a different host said.
  void add(std::size_t process, Stream stream, std::string_view bytes, TimePoint now);
  // Too much waits to be written: no more should be added.
  bool full() const { return sinks_[kOut].full() || sinks_[kErr].full(); }

  // No process is left that could write: what the pipes hold now is all. Then done() comes true
  // after prepare() and handle() have passed everything on.
  void noMoreWriters();
  bool done() const;
  // Why one of our own outputs takes no more, as an errno; 0: both do.
  int error() const {
    return sinks_[kOut].error() != 0 ? sinks_[kOut].error() : sinks_[kErr].error();
  }

  // Our terminal has another size: worker 0's gets it too.
  void resize();

  // Writes what can be written without waiting.
  void writeNow();

  // A message of our own, after what the processes said.
  void say(const std::string& text);
  const Tail& tail(std::size_t process, Stream stream) const;

 private:
  struct Source {
    int process = 0;
    Stream stream = kOut;
    bool remote = false;  // add() brings what it says, until there are no more writers.
    UniqueFd reader;      // Invalid at its end.
    UniqueFd writer;
    UniqueFd file;
    std::string fileName;
    Tail tail;
  };
  Output(const Plan& plan, const RunOptions& options);
  Status open(Source& source, const Plan& plan, const std::string& outputDir);
  Status connect(Source& source, const Plan& plan);
  bool ended(const Source& source) const {
    return source.remote ? noMoreWriters_ : !source.reader.valid();
  }
  void take(Source& source, std::string_view bytes, TimePoint now);
  void finishPrinters();
  // Whether the source is passed on as it is.
  bool isVerbatim(const Source& source) const;
  // Where lines of `stream` go.
  std::string& lines(Stream stream);
  void merge();
  void read(Source& source, TimePoint now);
  void store(Source& source, std::string_view bytes);

  std::array<QueuedOutput, 2> sinks_;
  std::array<LinePrinter, 2> printers_;
  std::string name_;
  // Worker 0's standard output, if that is passed on as it is, and what else should go to ours.
  std::optional<Verbatim> verbatim_;
  std::string others_;
  std::vector<Source> sources_;  // Two for each process.
  std::vector<Source*> polled_;
  bool noMoreWriters_ = false;
};

}  // namespace colla::launch
