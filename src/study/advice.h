// The recommendation of a study: which variant to take, and why, as text. The rule is written down
// in docs/study.md. Pure: figures in, decision and reasons out.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "study/summary.h"

namespace colla::study {

struct Advice {
  std::string decision;  // The variant's id; empty where nothing can be said.
  std::string headline;  // One sentence: what to take.
  std::string best;    // The fastest variant with more workers, taken or not; empty: there is none.
  double speedup = 0;  // Of `best` against one worker, by what `measure` says.
  double costRatio = 0;           // Core-seconds of `best` against those of one worker; 0: unknown.
  std::string measure;            // "time to loss" or "throughput".
  std::vector<std::string> ties;  // Ids of variants that can't be told from `best`.
  std::vector<std::string> reasons;   // Sentences.
  std::vector<std::string> warnings;  // What can't be concluded from this study.
};

// Two spreads differ if no run of one lies among the other's and the medians are more than 5 %
// apart; where one of them is a single run, more than 10 %.
bool differ(const Spread& a, const Spread& b);

Advice adviseFrom(const Figures& figures, int cores);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Advice, decision, headline, best, speedup, costRatio, measure,
                                   ties, reasons, warnings)

}  // namespace colla::study
