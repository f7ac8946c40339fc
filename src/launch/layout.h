// Which processes of a job run on which host. Pure.
#pragma once

#include <string>
#include <vector>

#include "colla/status.h"
#include "launch/host_slots.h"

namespace colla::launch {

struct HostLayout {
  std::string name;
  std::vector<int> workers;  // By rank.
  std::vector<int> servers;
};

// Workers fill host by host, as many as it has slots. Servers go where `serverHosts` says, or else
// to the workers' hosts in turn. Hosts without a process are left out. kInvalidArgument for more
// processes than slots.
Result<std::vector<HostLayout>> layOut(const std::vector<HostSlots>& hosts, int workers,
                                       int servers, const std::vector<HostSlots>& serverHosts);

// How many processes they have room for.
int slotsOf(const std::vector<HostSlots>& hosts);

}  // namespace colla::launch
