// What every benchmark has around it: a coordinator, progress, results on stdout and in a file, and
// the exit code.
#pragma once

#include <unistd.h>

#include <functional>
#include <string>

#include "bench/coordinator.h"
#include "colla/status.h"

namespace colla::bench {

// A line on stderr that overwrites itself, if somebody watches.
class ProgressLine {
 public:
  ~ProgressLine() { clear(); }
  void show(const std::string& line);
  void clear();

 private:
  const bool watched_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
};

struct Findings {
  std::string table;
  std::string json;
};

// Runs `measure`, prints its table on stdout and, unless `jsonFile` is empty, writes its JSON
// there. On failure one line on stderr. Returns the exit code: 0, 1 on failure, 128 + n when signal
// n ended it.
int runBenchmark(const std::string& jsonFile,
                 const std::function<Result<Findings>(Coordinator& coordinator)>& measure);

}  // namespace colla::bench
