#include "train/exchange/workers.h"

namespace colla::train {

Workers Workers::of(Job& job, const Epoch& epoch) {
  Workers workers{job, epoch.world(), epoch.slices()};
  const Topology& topology = epoch.topology();
  const int self = epoch.rank();
  const int first = topology.ranksOn(topology.hostOf(self)).front();
  if (epoch.host().size() > 1 && topology.sharesMemory(self, first)) workers.host = &epoch.host();
  workers.recorder = epoch.recorder();
  return workers;
}

}  // namespace colla::train
