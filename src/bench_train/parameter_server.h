// What a process of `colla bench ps` does that is a server, and how workers talk to it.
#pragma once

#include <optional>

#include "colla/job.h"
#include "colla/status.h"
#include "colla/trainer.h"
#include "ps/policy.h"

namespace colla::bench {

// As `colla train --strategy` has it; nothing for a strategy without servers.
std::optional<ps::PolicyOptions> policyOf(Strategy strategy, int workers);

// Serves one training after another, until the coordinator ends this process or a worker is lost.
Status serveParameters(Job& job);

}  // namespace colla::bench
