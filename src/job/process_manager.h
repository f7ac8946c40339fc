// The small values that mpirun's daemons carry between the processes that they started: PMI under
// MPICH and Intel MPI, PMIx under Open MPI.
//
// They carry them in the clear: decision 0024 has who can read them. All processes of the job make
// the same calls in the same order.
//
// Thread safety: none.
#pragma once

#include <memory>
#include <string>

#include "base/deadline.h"
#include "colla/status.h"

namespace colla::job {

class ProcessManager {
 public:
  virtual ~ProcessManager() = default;

  // A word for all of the job that mpirun's other jobs on these hosts don't have.
  virtual Result<std::string> jobName(Deadline deadline) = 0;
  // Both are words of at most 50 and 1000 letters; the others find the value after the next
  // fence().
  virtual Status put(const std::string& key, const std::string& value, Deadline deadline) = 0;
  // What `rank` put.
  virtual Result<std::string> get(int rank, const std::string& key, Deadline deadline) = 0;
  // Returns once all processes of the job have called it. kTimeout.
  virtual Status fence(Deadline deadline) = 0;
};

// Through the descriptor that MPICH's or Intel MPI's mpirun left in PMI_FD. With its end the
// process has taken its leave of mpirun, as MPI_Finalize would: a program that uses MPI besides has
// to call MPI_Init first, and then MPI does it.
Result<std::unique_ptr<ProcessManager>> openPmi(int descriptor, int rank);

// By libpmix, which is loaded at run time.
Result<std::unique_ptr<ProcessManager>> openPmix();

}  // namespace colla::job
