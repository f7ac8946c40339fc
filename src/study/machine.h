// The machine that a study runs on, for its report.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace colla::study {

struct Machine {
  std::string host;
  std::string processor;
  int cores = 1;      // That this process may use.
  double memory = 0;  // Bytes.
  std::string kernel;
  std::string system;  // "Debian GNU/Linux 12 (bookworm)".

  static Machine here();
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Machine, host, processor, cores, memory, kernel, system)

}  // namespace colla::study
