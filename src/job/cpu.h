// What numerical kernels choose their code by: processes whose CPUs differ in it can differ in
// the last bit, and so may not be in one job.
#pragma once

#include <string>

namespace colla::job {

// "x86_64 amd sse4.2 avx avx2 fma avx512f": the architecture, who made it, and the vector
// extensions it has.
std::string cpuFeatures();

// CPUs that this process may run on.
int usableCpus();

// How many of its `usable` CPUs are for one process of `localSize` on this host. `own`: as many as
// the launcher counts for each process; 0: it has not said.
int cpusForOne(int localSize, int own, int usable);
// Whether every process of the host can keep a CPU busy.
bool hasCoresForAll(int localSize, int own, int usable);

}  // namespace colla::job
