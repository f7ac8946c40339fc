// Runs the real `colla` for a test, as a user does.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "support/scratch.h"

namespace colla::cli {

struct Outcome {
  int exitCode = -1;
  std::string out;
  std::string error;
};

// In `directory`, where out.txt and err.txt stay behind. `arguments` are words for a shell, and so
// are the variables of `environment`.
inline Outcome runColla(const std::string& directory, const std::string& arguments,
                        const std::string& program = COLLA_BINARY,
                        const std::string& environment = "") {
  const std::string command = "cd '" + directory + "' && " + environment + " '" + program + "' " +
                              arguments + " >out.txt 2>err.txt";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, readText(directory + "/out.txt"),
          readText(directory + "/err.txt")};
}

}  // namespace colla::cli
