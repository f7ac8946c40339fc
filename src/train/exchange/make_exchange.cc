// The strategies that there are, and what makes the exchange of each: a new strategy is one row.
#include "colla/error.h"
#include "train/exchange/allreduce.h"
#include "train/exchange/exchange.h"
#include "train/exchange/hybrid.h"
#include "train/exchange/local_sgd.h"
#include "train/exchange/servers.h"

namespace colla::train {

Pace paceOf(Strategy strategy, const std::optional<ps::PolicyOptions>& policy) {
  if (strategy == Strategy::kLocalSgd) return {.ownMeans = true};
  // An allreduce in every step keeps hybrid's workers together, whatever its servers would allow.
  if (!policy || strategy == Strategy::kHybrid) return {};
  return {.inStep = policy->exact(), .updatePerBatch = policy->together()};
}

std::unique_ptr<Exchange> makeExchange(Strategy strategy, const Workers& workers,
                                       const ExchangeSetup& setup) {
  switch (strategy) {
    case Strategy::kSingle:
    case Strategy::kMirrored:
    case Strategy::kAllreduce:
      return makeAllreduce(workers, setup);
    case Strategy::kPsSync:
    case Strategy::kPsAsync:
    case Strategy::kPsSsp:
      return makeServers(workers, setup);
    case Strategy::kHybrid:
      return makeHybrid(workers, setup);
    case Strategy::kLocalSgd:
      return makeLocalSgd(workers, setup);
  }
  throw Error(StatusCode::kInternal, "a strategy without an exchange");
}

}  // namespace colla::train
