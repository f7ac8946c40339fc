#include "colla/strategy_options.h"

#include <string_view>
#include <utility>

#include "base/invalid.h"

namespace colla {

Status validate(const LocalSgdOptions& options) {
  if (options.every < 1) return invalid("every is {}, but takes 1 or more", options.every);
  if (!(options.outerRate > 0)) {
    return invalid("outer-lr is {}, but must be above 0", options.outerRate);
  }
  if (!(options.outerMomentum >= 0 && options.outerMomentum < 1)) {
    return invalid("outer-momentum is {}, but takes 0 to below 1", options.outerMomentum);
  }
  return {};
}

Status checkOptions(Strategy strategy, const StrategyOptions& options) {
  const auto& [servers, local] = options;
  const LocalSgdOptions plain;
  const std::pair<bool, std::string_view> chosen[] = {
      {servers.backup != 0, "backup"},
      {servers.requeueDropped, "requeue-dropped"},
      {servers.maxStaleness.has_value(), "max-staleness"},
      {servers.staleness != 0, "staleness"},
      {servers.partitions != 0, "partitions"},
      {local.every != plain.every, "every"},
      {local.outerRate != plain.outerRate, "outer-lr"},
      {local.outerMomentum != plain.outerMomentum, "outer-momentum"},
  };
  for (const auto& [set, option] : chosen) {
    if (set) COLLA_TRY(checkTakes(strategy, option));
  }
  if (servers.count < 0) return invalid("--ps is {}, but takes 1 or more", servers.count);
  if (servers.requeueDropped && servers.backup == 0) {
    return invalid("--requeue-dropped is for --strategy {} with --backup",
                   strategiesTaking("requeue-dropped"));
  }
  if (servers.partitions < ServerOptions::kAutoPartitions) {
    return invalid("--partitions is {}, but takes auto or a number", servers.partitions);
  }
  const Status fits = validate(local);
  return fits.ok() ? fits : invalid("--{}", fits.message());
}

}  // namespace colla
