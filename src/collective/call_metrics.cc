#include "collective/call_metrics.h"

#include "base/metric_families.h"

namespace colla::collective {
namespace {

std::vector<std::string> labelOf(Operation operation) {
  return {operation == Operation::kRefused ? "refused" : std::string(toString(operation))};
}

}  // namespace

CallMetrics::PerOperation::PerOperation(Operation operation)
    : seconds(metrics::family("colla_collective_seconds"), labelOf(operation)),
      bytes(metrics::family("colla_collective_bytes_total"), labelOf(operation)),
      failures(metrics::family("colla_collective_failures_total"), labelOf(operation)) {}

}  // namespace colla::collective
