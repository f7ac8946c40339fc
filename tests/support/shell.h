// One line for a shell, as a user or a launcher writes it.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace colla::test {

struct Told {
  int code = -1;     // Exit code; -1 when it was ended by a signal, or there was no shell.
  std::string said;  // Its standard output and error.
};

inline Told shell(const std::string& line) {
  FILE* const pipe = popen(("{ " + line + "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) return {};
  Told told;
  char buffer[4096];
  while (const std::size_t count = fread(buffer, 1, sizeof(buffer), pipe)) {
    told.said.append(buffer, count);
  }
  const int status = pclose(pipe);
  told.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return told;
}

}  // namespace colla::test
