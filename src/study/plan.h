// Which runs a study makes, how long they take, and what does not fit into its budget. Pure: what
// was measured beforehand is passed in.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colla/status.h"
#include "study/options.h"
#include "study/variant.h"

namespace colla::study {

// The machine, as far as a plan depends on it.
struct Cores {
  int cores = 1;
};

// What a short training with one strategy took.
struct Probe {
  double startSeconds = 0;  // From its start to its end, without steps.
  double stepSeconds = 0;
  double evaluationSeconds = 0;  // Of the test set, once.
  std::int64_t batch = 0;        // What the program takes by default.
  int workers = 1;
};
// By strategy, or by a variant's id; "single" must be there.
using Probes = std::map<std::string, Probe>;

struct PlannedRun {
  std::string variant;  // Its id.
  int repeat = 0;
  double seconds = 0;  // Estimated.
};

struct Plan {
  std::vector<Variant> variants;
  std::vector<PlannedRun> runs;      // In the order in which they are made: interleaved.
  std::vector<std::string> leftOut;  // One sentence each.

  double seconds() const;
  const Variant& variant(const std::string& id) const;
};

// All variants that the options name, in the order in which people should read of them.
// kInvalidArgument for options that can't be. `batch`: the program's own.
Result<std::vector<Variant>> variantsOf(const Options& options, const Cores& machine,
                                        std::int64_t batch);

// How long a run of `variant` will take.
double estimate(const Variant& variant, const Probes& probes);

// Every variant `repeat` times, in turns, cut to the budget: first repeats go, down to two, then
// alternatives, then numbers of workers between one and the most, then repeats down to one, then
// the slowest variants. The baseline stays.
Plan makePlan(const std::vector<Variant>& variants, const Probes& probes, int repeat,
              double budgetSeconds);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlannedRun, variant, repeat, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Plan, variants, runs, leftOut)

}  // namespace colla::study
