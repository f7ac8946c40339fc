// `log.txt` in a run's directory: a header, then one line per step, with tabs between
//
//   step    start       end         loss      accuracy
//   1       0.000012    0.004310    2.302585  0.109375
//
// Start and end are seconds of training; after a resume they go on where the last kept step
// ended. Accuracy is nan where a model has none. Not thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "colla/status.h"
#include "observe/append_file.h"
#include "observe/step.h"

namespace colla::observe {

class RunLog {
 public:
  struct Options {
    // The last step that counts: rows after it, and what a crash left half written, are dropped
    // from the file before it grows again. 0 starts it anew.
    std::int64_t resumedStep = 0;
    std::chrono::milliseconds flushEvery{1000};
    const Clock* clock = &Clock::real();
  };
  // A file at `path` that is no such log is refused and stays as it is.
  static Result<RunLog> open(const std::string& path, const Options& options);
  static Result<RunLog> open(const std::string& path) { return open(path, Options()); }

  Status step(const Step& step);
  // To be called before a checkpoint is saved: a run that resumes from it finds all of its rows.
  Status flush() { return file_.flush(); }
  Status close() { return file_.close(); }

 private:
  RunLog(AppendFile file, double offset) : file_(std::move(file)), offset_(offset) {}

  AppendFile file_;
  double offset_;  // Seconds of training before this process.
  std::string line_;
};

}  // namespace colla::observe
