// Runs the real `colla` for a test, as a user does.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace colla::cli {

struct Outcome {
  int exitCode = -1;
  std::string out;
  std::string error;
};

// In `directory`, where out.txt and err.txt stay behind. `arguments` are words for a shell.
inline Outcome runColla(const std::string& directory, const std::string& arguments,
                        const std::string& program = COLLA_BINARY) {
  const std::string command =
      "cd '" + directory + "' && '" + program + "' " + arguments + " >out.txt 2>err.txt";
  const int status = std::system(command.c_str());
  const auto read = [&](const char* name) {
    std::ifstream file(directory + "/" + name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("out.txt"), read("err.txt")};
}

}  // namespace colla::cli
