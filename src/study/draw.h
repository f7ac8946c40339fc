// The drawing of reports and curves, which is Python's (python/colla/study): finding the Python,
// and running it.
#pragma once

#include <string>
#include <vector>

#include "colla/status.h"

namespace colla::study {

// A Python that has matplotlib, and the folder that `colla.study` is in. kUnsupported says what to
// install.
struct Drawer {
  std::string python;
  std::string package;

  static Result<Drawer> find();
  // Runs `python -m colla.study ARGUMENTS`; what it says is said here. Its exit code.
  int run(const std::vector<std::string>& arguments) const;
};

}  // namespace colla::study
