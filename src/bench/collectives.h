// The benchmark of collectives as a whole: starts the systems, measures, reports.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/network.h"
#include "bench/operation.h"

namespace colla::bench {

struct CollectivesOptions {
  int np = 2;
  std::vector<Operation> operations = {Operation::kAllreduce};
  std::vector<std::size_t> bytes = {1 << 10, 64 << 10, 4 << 20, 32 << 20, 100 << 20};
  // Systems to compare with. Those that are not `required` are left out, with a line on stderr,
  // where they are not installed.
  std::vector<std::string> peers = {"gloo", "openmpi"};
  bool peersRequired = false;
  std::vector<std::string> buffers = {"shared", "private"};
  Net net = Net::kShm;
  int rounds = 7;
  double seconds = 0.15;
  std::string jsonFile;  // Empty: none.
};

// Prints the table on stdout, and on failure one line on stderr. Returns the exit code: 0, 1 on
// failure, 128 + n when signal n ended it.
int benchCollectives(const CollectivesOptions& options);

}  // namespace colla::bench
