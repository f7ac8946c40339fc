#include "ps/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

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

int PolicyOptions::spare() const {
  if (consistency != Consistency::kSync) return workers - 1;
  return backup == kAuto ? workers / 2 : backup;
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

std::string histogram(const Staleness& staleness) {
  constexpr std::int64_t kSingly = 8;
  Staleness grouped;  // By the first of a group.
  for (const auto& [late, count] : staleness) {
    const auto floor = std::bit_floor(static_cast<std::uint64_t>(late));
    grouped[late < kSingly ? late : static_cast<std::int64_t>(floor)] += count;
  }
  std::string text;
  for (const auto& [late, count] : grouped) {
    if (!text.empty()) text += ", ";
    text += late < kSingly ? fmt::format("{}: {}", late, count)
                           : fmt::format("{}-{}: {}", late, 2 * late - 1, count);
  }
  return text;
}

}  // namespace colla::ps
