// What one server has done, for the metrics. Not thread safe: the server's thread counts.
#pragma once

#include "base/metric_families.h"
#include "base/metrics.h"

namespace colla::ps {

struct ServerMetrics {
  metrics::Counter pushes{metrics::family("colla_ps_pushes_total")};
  metrics::Counter pushedRows{metrics::family("colla_ps_pushed_rows_total")};
  metrics::Counter pulls{metrics::family("colla_ps_pulls_total")};
  metrics::Counter pulledRows{metrics::family("colla_ps_pulled_rows_total")};
  metrics::Counter folds{metrics::family("colla_ps_folds_total")};
  metrics::Counter foldedBytes{metrics::family("colla_ps_folded_bytes_total")};
  metrics::Counter dropped{metrics::family("colla_ps_dropped_total")};
  metrics::Histogram staleness{metrics::family("colla_ps_staleness")};
  metrics::Gauge workers{metrics::family("colla_ps_workers")};
};

}  // namespace colla::ps
