// How every command names a checkpoint: as its argument CHECKPOINT, or as the flag that `colla
// train` has for the same directory; each time with or without @STEP.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace colla::cli {

inline CLI::Option* addCheckpoint(CLI::App& app, std::string& text, const std::string& what) {
  return app
      .add_option("CHECKPOINT,--checkpoint-dir,--run-dir,--checkpoint", text,
                  what + ": directory of a run; its newest step, that of @STEP, or @best")
      ->option_text("DIR[@STEP|@best]");
}

}  // namespace colla::cli
