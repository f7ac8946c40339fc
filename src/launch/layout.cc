#include "launch/layout.h"

#include <algorithm>

#include "base/invalid.h"
#include "launch/run.h"

namespace colla::launch {
namespace {

HostLayout& layoutOf(std::vector<HostLayout>& layouts, const std::string& name) {
  const auto it = std::ranges::find(layouts, name, &HostLayout::name);
  if (it != layouts.end()) return *it;
  return layouts.emplace_back(HostLayout{.name = name, .workers = {}, .servers = {}});
}

}  // namespace

int slotsOf(const std::vector<HostSlots>& hosts) {
  int slots = 0;
  for (const HostSlots& host : hosts) slots = std::min(slots + host.slots, kMaxProcesses);
  return slots;
}

Result<std::vector<HostLayout>> layOut(const std::vector<HostSlots>& hosts, int workers,
                                       int servers, const std::vector<HostSlots>& serverHosts) {
  if (workers > slotsOf(hosts)) {
    return invalid("-np is {}, but the hosts have {} slots", workers, slotsOf(hosts));
  }
  if (!serverHosts.empty() && servers > slotsOf(serverHosts)) {
    return invalid("--ps is {}, but --server-hosts has {} slots", servers, slotsOf(serverHosts));
  }
  std::vector<HostLayout> layouts;
  int next = 0;
  for (const HostSlots& host : hosts) {
    for (int slot = 0; slot < host.slots && next < workers; ++slot) {
      layoutOf(layouts, host.name).workers.push_back(next++);
    }
  }
  const std::size_t withWorkers = layouts.size();
  next = 0;
  for (const HostSlots& host : serverHosts) {
    for (int slot = 0; slot < host.slots && next < servers; ++slot) {
      layoutOf(layouts, host.name).servers.push_back(next++);
    }
  }
  for (; next < servers; ++next) {
    layouts[static_cast<std::size_t>(next) % withWorkers].servers.push_back(next);
  }
  return layouts;
}

}  // namespace colla::launch
