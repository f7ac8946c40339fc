#include "colla/topology.h"

#include <map>

namespace colla {

Topology::Topology(std::span<const std::string> hosts, bool sharedMemory) {
  auto table = std::make_shared<Table>();
  table->shared = sharedMemory;
  std::map<std::string, int> numbers;
  for (const std::string& name : hosts) {
    const int rank = static_cast<int>(table->host.size());
    const int host = numbers.emplace(name, static_cast<int>(numbers.size())).first->second;
    if (host == static_cast<int>(table->ranks.size())) table->ranks.emplace_back();
    table->host.push_back(host);
    table->local.push_back(static_cast<int>(table->ranks[host].size()));
    table->ranks[host].push_back(rank);
  }
  // Among the ranks that are n-th on their hosts, the order of ranks is the order of cross ranks.
  for (const int local : table->local) {
    if (local == static_cast<int>(table->crossSizes.size())) table->crossSizes.push_back(0);
    table->cross.push_back(table->crossSizes[local]++);
  }
  table_ = std::move(table);
}

}  // namespace colla
