// The metrics of a job, served by its front.
#pragma once

#include "launch/plan.h"
#include "observe/metrics_endpoint.h"

namespace colla::launch {

// Answers for all processes of `plan`, from now on. `endpoint` is null where nobody asked for it.
// Starts threads: to be called when nothing forks any more.
void serveMetrics(observe::MetricsEndpoint* endpoint, const Plan& plan);

}  // namespace colla::launch
