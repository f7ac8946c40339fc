// The tables of a report: CSV texts, and the means that they and report.json share. Pure.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "study/run.h"

namespace colla::study {

struct Study;

// What the processes of one role took while the run trained: sums over them.
struct MeanUse {
  int processes = 0;
  double user = 0;    // Cores.
  double system = 0;  // Cores, in the kernel.
  double resident = 0;
  double proportional = 0;
  double switches = 0;  // Per second.
  double faults = 0;
  double network = 0;  // Bytes per second, in and out, by the transports between hosts.
  double shared = 0;   // The same through shared memory: messages, and gradients that lie in it.
};
std::map<std::string, MeanUse> meanUse(const RunResult& run);

// Seconds of a step, of all workers on average: {"forward": …, "exposed": …}. Empty if no counter
// was seen.
nlohmann::ordered_json phasesOf(const RunResult& run);

std::string runsTable(const Study& study);
std::string stepsTable(const Study& study);
std::string utilisationTable(const Study& study);
std::string equalityTable(const Study& study);

}  // namespace colla::study
