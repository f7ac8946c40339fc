// The life of a training program: start workers where there are to be several, train, and say in
// one line why not.
#pragma once

#include <string>

#include "colla/trainer.h"
#include "train/flags.h"

namespace colla::train {

// Returns the exit code of the process: see Trainer::main().
int runProgram(const std::string& program, Task task, const Flags& flags);

}  // namespace colla::train
