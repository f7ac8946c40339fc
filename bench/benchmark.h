// What every benchmark has around it: flags, a coordinator, progress, results on stdout and in a
// file, and the exit code.
#pragma once

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "bench/coordinator.h"
#include "bench/report.h"
#include "bench/runner.h"
#include "colla/status.h"

namespace colla::bench {

// Each adds a subcommand of `colla bench`. When it is chosen, parsing leaves in `action` what
// carries it out and returns the exit code.
using Action = std::function<int()>;
void addCollectives(CLI::App& bench, Action& action);
void addTrain(CLI::App& bench, Action& action);
void addPs(CLI::App& bench, Action& action);
void addHybrid(CLI::App& bench, Action& action);
void addNetwork(CLI::App& bench, Action& action);

// Flags that benchmarks share.
struct CommonOptions {
  // Systems to compare with. Where one is missing and not `peersRequired`, it is left out with a
  // line on stderr.
  std::vector<std::string> peers = {};
  bool peersRequired = false;
  int rounds = 7;
  double seconds = 0.3;       // What one measurement should take.
  std::string jsonFile = {};  // Empty: none.
};
// --rounds, --seconds and --json.
void addRunFlags(CLI::App& app, CommonOptions& options);
// --peers, of `choices`, with the help text `what` and "none".
void addPeers(CLI::App& app, CommonOptions& options, const std::string& what);

// Lets parsing end with a usage error.
void throwIfBad(const Status& status);

// A word that `parse` accepts; its message is the user's.
template <typename Parse>
CLI::Validator accepted(Parse parse) {
  return CLI::Validator(
      [parse](const std::string& word) {
        const auto result = parse(word);
        return result.ok() ? std::string() : std::string(result.status().message());
      },
      "");
}

// Each word once, in the order of their first appearance.
template <typename Word>
std::vector<Word> distinct(const std::vector<Word>& words) {
  std::vector<Word> kept;
  for (const Word& word : words) {
    if (std::ranges::find(kept, word) == kept.end()) kept.push_back(word);
  }
  return kept;
}

// A program beside this one: "colla-bench-train".
std::string programBeside(const std::string& name);
// kUnsupported where this build has no such program, because it needs libtorch.
Status checkTorchProgram(const std::string& program, const std::string& instead = "");

// A line on stderr that overwrites itself, if it is a terminal.
class ProgressLine {
 public:
  ~ProgressLine() { clear(); }
  void show(const std::string& line);
  void clear();
  // A line that stays.
  void tell(const std::string& line);

 private:
  const bool watched_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
};

// The run of one benchmark.
class Bench {
 public:
  Bench(const CommonOptions& common, Coordinator& coordinator)
      : common_(common), coordinator_(coordinator) {}

 protected:
  Status start(const SystemSpec& spec);
  // Starts a peer, or leaves it out; true if it runs.
  Result<bool> startPeer(const std::string& peer,
                         const std::function<Result<SystemSpec>()>& makeSpec);
  RunnerOptions runnerOptions(const std::string& title);

  const CommonOptions& common_;
  Coordinator& coordinator_;
  ProgressLine progress_;
};

struct Findings {
  std::string table;
  Records records;
};

// Runs `measure`, prints its table on stdout and, unless `jsonFile` is empty, writes its records
// there. On failure one line on stderr. Returns the exit code: 0, 1 on failure, 128 + n when signal
// n ended it.
int runBenchmark(const std::string& jsonFile,
                 const std::function<Result<Findings>(Coordinator& coordinator)>& measure);

}  // namespace colla::bench
