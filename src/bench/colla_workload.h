// Colla itself, seen from one rank: through the public interface, as a user's program would be.
#pragma once

#include <memory>

#include "bench/agent.h"
#include "colla/job.h"

namespace colla::bench {

enum class Buffers {
  kShared,   // Buckets: collectives reduce them where they lie.
  kPrivate,  // Memory that Colla knows nothing of.
};

// `job` must outlive it.
std::unique_ptr<Workload> makeCollaWorkload(Job& job, Buffers buffers);

}  // namespace colla::bench
