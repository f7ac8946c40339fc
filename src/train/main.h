// The life of a training program: start workers where there are to be several, train, and say in
// one line why not.
#pragma once

#include <string>

#include "colla/trainer.h"
#include "train/flags.h"

namespace colla::train {

// Returns the exit code of the process: see Trainer::main(). `checksModel`: makes a model before
// any worker starts, to say once what is wrong with it (train/model_check.h).
int runProgram(const std::string& program, Task task, const Flags& flags, bool checksModel = true);

// The same for a program's --eval.
int runEvaluation(const std::string& program, Task task, const Flags& flags);

// The same with options that were read already. Worker 0 prints what Trainer::evaluate() found:
// "step 600 - 10000 samples - loss: 0.2345 - accuracy: 0.9312", and as JSON where `json` says
// (addJsonFlag, base/command_line.h).
int runEvaluation(const std::string& program, Task task, TrainOptions options, const Config& config,
                  const std::string& json);

}  // namespace colla::train
