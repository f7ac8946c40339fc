// What a run that ended too early has left on the disk, and how to go on with it, in words.
#pragma once

#include <string>

#include "job/environment.h"

namespace colla::train {

// Whether there is something in the directory of a run to go on from.
bool hasCheckpoint(const std::string& directory);

// " is saved in runs/net; go on with: ./net --checkpoint-dir runs/net --resume": what follows the
// newest step. The command is this process's own, and `place` says what else it takes to go on.
std::string wayOn(const std::string& directory, const job::Place& place);

// "step 120 is saved in …" as above, or that nothing is saved.
std::string leftBehind(const std::string& directory, const job::Place& place);

}  // namespace colla::train
