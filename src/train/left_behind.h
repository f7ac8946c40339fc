// What a run that ended too early has left on the disk, and how to go on with it, in words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "colla/trainer.h"

namespace colla::train {

// "step 120 is saved in runs/net; go on with: ./net --checkpoint-dir runs/net --resume", or that
// nothing is saved. `command`: that of this run; `how`: what else it takes to go on with it.
std::string leftBehind(const std::string& directory, const std::vector<std::string>& command,
                       std::string_view how);

}  // namespace colla::train
