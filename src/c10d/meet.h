// From the store that torch.distributed gives its backends to a job of Colla's.
#pragma once

#include <chrono>
#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "colla/job.h"

namespace colla::c10d {

// Joins the `size` processes that call it with the same store (and a prefix of their own), each as
// the rank it says.
//
// Torch's store is not authenticated, so nothing that it says is believed further than it must be:
// on one host the processes meet at a Unix socket that checks the user; between hosts they need a
// secret of their own, or the explicit choice of a wire that is trusted as it is
// (COLLA_TRANSPORT=tcp-plain).
//
// Throws DistStoreError when ranks do not come in time, naming them; DistBackendError for the rest.
std::unique_ptr<Job> meet(::c10d::Store& store, int rank, int size,
                          std::chrono::milliseconds timeout);

}  // namespace colla::c10d
