// Short trainings before the plan: whether each strategy can run here at all, and how long it
// takes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "study/plan.h"
#include "study/run.h"

namespace colla::study {

struct Probing {
  Probes probes;
  std::string data;  // As the training names it.
  std::string torchVersion;
  std::int64_t batch = 0;
  // Strategies that can't run here, each with the line that says why.
  std::vector<std::pair<std::string, std::string>> refused;
};

// Trains a few steps in `directory`, which is emptied, for each of `variants` (one per strategy,
// the baseline first). An error if the baseline cannot run: nothing can then. `says` is called
// before each.
Result<Probing> probe(Runner& runner, const Program& program, const RunSettings& settings,
                      const std::vector<Variant>& variants, const std::string& directory,
                      const std::function<void(const std::string& line)>& says);

// Who the process is that a run starts: the worker itself, or what starts workers.
std::string rootRoleOf(const Program& program, const Variant& variant);

}  // namespace colla::study
