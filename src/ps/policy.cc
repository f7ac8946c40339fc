#include "ps/policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "ps/policy_async.h"
#include "ps/policy_ssp.h"
#include "ps/policy_sync.h"

namespace colla::ps {

std::string_view toString(Consistency consistency) {
  switch (consistency) {
    case Consistency::kSync:
      return "sync";
    case Consistency::kAsync:
      return "async";
    case Consistency::kSsp:
      return "ssp";
  }
  return "unknown";
}

Status validate(const PolicyOptions& options) {
  if (options.backup != PolicyOptions::kAuto &&
      (options.backup < 0 || options.backup >= options.workers)) {
    return {StatusCode::kInvalidArgument,
            fmt::format("--backup is {}, but of {} workers at least one must be waited for: it "
                        "takes 0 to {}, or auto",
                        options.backup, options.workers, options.workers - 1)};
  }
  if (options.maxStaleness && *options.maxStaleness < 0) {
    return {StatusCode::kInvalidArgument,
            fmt::format("--max-staleness is {}, but can't be negative", *options.maxStaleness)};
  }
  if (options.staleness < 0) {
    return {StatusCode::kInvalidArgument,
            fmt::format("--staleness is {}, but can't be negative", options.staleness)};
  }
  return {};
}

std::unique_ptr<Policy> makePolicy(const PolicyOptions& options, std::int64_t step) {
  switch (options.consistency) {
    case Consistency::kAsync:
      return std::make_unique<AsyncPolicy>(options, step);
    case Consistency::kSsp:
      if (options.staleness > 0) return std::make_unique<SspPolicy>(options, step);
      break;  // Nobody may be ahead: one step of all.
    case Consistency::kSync:
      break;
  }
  return std::make_unique<SyncPolicy>(options, step);
}

}  // namespace colla::ps
