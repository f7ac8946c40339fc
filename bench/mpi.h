// How to start a job of an MPI library.
#pragma once

#include <string>

#include "bench/systems.h"
#include "colla/status.h"

namespace colla::bench {

// Open MPI or MPICH ("openmpi", "mpich") through a small program, which this compiles. `name` is
// the system's. kNotFound, with what to install, where the library is not there.
Result<SystemSpec> mpiSystem(const Stage& stage, const std::string& library,
                             const std::string& name);

}  // namespace colla::bench
