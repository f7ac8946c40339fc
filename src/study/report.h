// report.json and the CSV files of a study: everything that was measured, and what follows from it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colla/status.h"
#include "study/advice.h"
#include "study/equality.h"
#include "study/machine.h"
#include "study/options.h"
#include "study/plan.h"
#include "study/run.h"
#include "study/summary.h"

namespace colla::study {

// What a study has come to.
struct Study {
  Options options;
  std::string command;  // That repeats it.
  std::string began;    // Local time, as ISO 8601 has it.
  Machine machine;
  // What the trainings themselves say: data, model, torch's version.
  std::string data;
  std::string torchVersion;
  std::int64_t batch = 0;
  Plan plan;
  std::vector<std::string> notes;  // Sentences about this study, such as why bits differ.
  std::vector<RunResult> runs;
  std::vector<EqualityMatrix> equality;
  bool interrupted = false;
};

// Pure.
nlohmann::ordered_json toJson(const Study& study, const Figures& figures, const Advice& advice);

// Writes report.json, runs.csv, steps.csv, utilisation.csv and equality.csv into `directory`.
Status writeReport(const std::string& directory, const Study& study);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Study, options, command, began, machine, data, torchVersion,
                                   batch, plan, notes, equality)

}  // namespace colla::study
