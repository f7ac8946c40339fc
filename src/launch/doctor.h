// `colla doctor`: what the hosts of a job are and have, what a job would choose there and why, and
// how fast they reach each other.
#pragma once

#include <string>
#include <vector>

#include "launch/host_facts.h"
#include "launch/run.h"

namespace colla::launch {

// What stands in the table of hosts, and below it. Pure.
std::string hostTable(const std::vector<std::string>& names, const std::vector<HostFacts>& facts);
std::string choices(const std::vector<std::string>& names, const std::vector<HostFacts>& facts);

// On the hosts of `options`, or on this one if it names none. Prints what it finds; returns the
// exit code: 0 if a job could run there, 1 if not.
int runDoctor(const RunOptions& options);

}  // namespace colla::launch
