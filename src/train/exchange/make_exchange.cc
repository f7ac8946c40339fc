// What makes the exchange of each strategy: a new strategy is one line.
#include "colla/error.h"
#include "train/exchange/allreduce.h"
#include "train/exchange/exchange.h"
#include "train/exchange/hybrid.h"
#include "train/exchange/local_sgd.h"
#include "train/exchange/servers.h"

namespace colla::train {

StepRules stepRulesOf(Strategy strategy, const std::optional<ps::PolicyOptions>& policy) {
  switch (traitsOf(strategy).pacing) {
    case Pacing::kTogether:
      return {};
    case Pacing::kRounds:
      return {.ownMeans = true};
    case Pacing::kServersSync:
    case Pacing::kServersAsync:
    case Pacing::kServersSsp:
      return {.evaluateTogether = policy->exact(), .updatePerBatch = policy->together()};
  }
  throw Error(StatusCode::kInternal, "a strategy without a pacing");
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
