// `colla bench` of a build without benchmarks (-DCOLLA_BENCH=OFF). `pip install .` compiles on the
// user's machine, and benchmarks would take a sixth of that time.
#include <fmt/format.h>

#include <cstdio>

#include "bench/command.h"
#include "bench/peers/files.h"

namespace colla::bench {

int benchCommand(const std::vector<std::string>& /*arguments*/) {
  fmt::print(stderr,
             "colla bench: not in this build, which has no benchmarks (-DCOLLA_BENCH=OFF), as a "
             "wheel has none: use ./colla bench in a clone, or python -m colla.bench\n");
  return 1;
}

Status writePeerFiles(const std::string& /*folder*/) {
  return {
      StatusCode::kUnsupported,
      "this build has no peers (-DCOLLA_BENCH=OFF), as a wheel has none: use ./colla study in a "
      "clone, or leave --peers out"};
}

}  // namespace colla::bench
