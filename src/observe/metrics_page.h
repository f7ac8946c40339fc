// Metrics in Prometheus' text format: of one process, and of several joined.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/metrics.h"

namespace colla::observe {

// Which process of a job counted: the labels `role`, `rank` and `host`.
struct ProcessLabels {
  std::string role = "worker";
  int rank = 0;
  std::string host;
};

// All that `registry` has. Ends with kPageEnd, so that a reader knows a whole page from a torn one.
inline constexpr std::string_view kPageEnd = "# EOF\n";
std::string metricsPage(const metrics::Registry& registry, const ProcessLabels& labels);

// One process's `colla_up`.
std::string upPage(const ProcessLabels& labels, bool up);

// One page of several: the format wants all samples of a family in one place.
std::string joinedPage(std::span<const std::string> pages);

}  // namespace colla::observe
