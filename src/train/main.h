// The life of a training program: start workers where there are to be several, train, and say in
// one line why not.
#pragma once

#include <functional>
#include <string>

#include "colla/trainer.h"
#include "train/flags.h"

namespace colla::train {

// Returns the exit code of the process: see Trainer::main().
int runProgram(const std::string& program, Task task, const Flags& flags);

// The same for Trainer::evaluate(). Worker 0 alone calls `show`.
int runEvaluation(const std::string& program, Task task, TrainOptions options, const Config& config,
                  const std::function<void(const Evaluation&)>& show);

}  // namespace colla::train
