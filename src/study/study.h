// A whole study: looks at what each strategy takes, plans, runs everything in turns, and reports.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "colla/status.h"
#include "study/options.h"

namespace colla::study {

struct Request {
  Options options;
  std::string command;           // As the user typed it.
  std::string out;               // The study's directory.
  bool resume = false;           // Go on with the study in `out`; `options` are not looked at...
  std::optional<double> budget;  // ...but this is, in minutes.
  bool named = false;            // The user named strategies: one that can't run is an error.
  bool keepCheckpoints = false;
  std::vector<std::string> notes;  // For the report.
  // Writes the programs of peers into a folder: the benchmarks carry them.
  std::function<Status(const std::string& folder)> writePeerFiles = nullptr;
};

constexpr int kExitFailure = 1;
constexpr int kSignalled = 128;

// Returns the exit code: 0, 2 for what the user can't have, 1 for other failures, 128 + n after
// signal n. What went wrong is said on standard error. To be called in a process with one thread.
int runStudy(const Request& request);

}  // namespace colla::study
