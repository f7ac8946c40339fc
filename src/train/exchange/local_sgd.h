// local-sgd: every worker makes `every` steps by itself, on its own slices; then all average their
// parameters (train/exchange/parameter_average.h). Far fewer bytes travel, and the weights differ
// from those of the other strategies.
#pragma once

#include <memory>

#include "train/exchange/exchange.h"

namespace colla::train {

std::unique_ptr<Exchange> makeLocalSgd(const Workers& workers, const ExchangeSetup& setup);

}  // namespace colla::train
