// Runs of the test program (program.cc), as a user starts them.
#pragma once

#include <string>
#include <vector>

#include "support/colla_process.h"
#include "support/scratch.h"

namespace colla::train {

using Words = std::vector<std::string>;

using launch::Ended;

Words joined(Words words, const Words& more);

// The program with `words`, to its end.
Ended runProgram(const Words& words);
// A program under way.
launch::CollaProcess::Options programOptions();

// What a small run has in common: 602 samples, of which a 13th batch has 2, fewer than slices.
Words smallRun(const std::string& model, const std::string& directory, const Words& more);

// The steps that a run directory has checkpoints of.
std::vector<std::int64_t> stepsIn(const std::string& directory);

// Parameters, buffers and optimizer state of `step` in two run directories, with everything that
// differs in words; empty if every bit is equal.
std::string differencesAt(const std::string& a, const std::string& b, std::int64_t step);
// The same for two checkpoints, each as DIRECTORY@STEP.
std::string differences(const std::string& a, const std::string& b);

}  // namespace colla::train
