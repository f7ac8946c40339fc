// `--json FILE`: one JSON object per line, one line per step, and a last one with totals:
//
//   {"step":1,"loss":2.3,"metrics":{"accuracy":0.1},"seconds":0.002,"samples_per_s":50000.0}
//   {"total":true,"steps":1,"samples":100,"seconds":0.002,"samples_per_s":50000.0,"loss":2.3,
//    "metrics":{"accuracy":0.1},"peak_memory":1048576}                       (in one line)
//
// Numbers that JSON lacks (NaN, infinity) are null. Not thread safe.
#pragma once

#include <chrono>
#include <string>

#include "colla/status.h"
#include "observe/append_file.h"
#include "observe/step.h"

namespace colla::observe {

class StepLog {
 public:
  struct Options {
    std::chrono::milliseconds flushEvery{1000};
    const Clock* clock = &Clock::real();
  };
  // Starts `path` anew.
  static Result<StepLog> create(const std::string& path, const Options& options);
  static Result<StepLog> create(const std::string& path) { return create(path, Options()); }

  Status step(const Step& step);
  Status flush() { return file_.flush(); }
  // Writes the last line and closes.
  Status finish(const Totals& totals);

 private:
  explicit StepLog(AppendFile file) : file_(std::move(file)) {}
  AppendFile file_;
};

}  // namespace colla::observe
