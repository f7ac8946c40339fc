#include "launch/metrics.h"

#include <string>
#include <utility>
#include <vector>

#include "observe/metrics_page.h"
#include "observe/metrics_socket.h"

namespace colla::launch {

void serveMetrics(observe::MetricsEndpoint* endpoint, const Plan& plan) {
  if (endpoint == nullptr) return;
  std::vector<observe::MetricsSource> sources;
  for (const Process& process : plan.processes) {
    const observe::ProcessLabels labels{
        .role = std::string(toString(process.role)), .rank = process.rank, .host = process.host};
    sources.push_back({labels, observe::metricsSocketName(plan.jobId, labels)});
  }
  endpoint->start([sources = std::move(sources)] {
    return observe::joinedPage(
        observe::collectPages(sources, Deadline::after(observe::kScrapeLimit)));
  });
}

}  // namespace colla::launch
