// A test that runs `colla` in a folder of its own.
#pragma once

#include <string>

#include "support/checkpoints.h"
#include "support/command.h"

namespace colla::cli {

class CollaTest : public checkpoint::CheckpointTest {
 protected:
  Outcome colla(const std::string& arguments) const { return runColla(scratch_.path(), arguments); }
};

}  // namespace colla::cli
