// One of four processes of a job, two on each of two hosts or all on one. Says which transports its
// groups have ("route …", which depends on the hosts) and what they sum ("sum …", which does not).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "colla/job.h"
#include "collective/group_core.h"
#include "job/slice_sums.h"

using namespace colla;

namespace {

constexpr std::array<std::size_t, 2> kCounts = {16, 300'000};

Status tell(const std::string& name, Group& group) {
  const auto& options = group.core().options();
  std::cout << fmt::format("route {}: {} by {}", name, fmt::join(options.members, ","),
                           options.transport->name())
            << std::endl;
  COLLA_TRY_ASSIGN(const SliceMap map, SliceMap::even(6, group.size()));
  for (const std::size_t count : kCounts) {
    COLLA_TRY_ASSIGN(const std::uint32_t hash, test::sumHash(group, map, count));
    std::cout << fmt::format("sum {} {}: {:08x}", name, count, hash) << std::endl;
  }
  return {};
}

Status subgroup(const std::string& name, Group& world, std::vector<int> ranks) {
  COLLA_TRY_ASSIGN(const auto group, world.subgroup(ranks));
  return tell(name, *group);
}

// What one worker of a host writes, the others see.
Status writeInCommon(Job& job) {
  const Epoch epoch = job.epoch();
  COLLA_TRY_ASSIGN(const Bucket common, job.allocateCommon(epoch.workers() * sizeof(int)));
  const auto numbers = common.as<int>();
  numbers[epoch.rank()] = epoch.rank() + 1;
  COLLA_TRY(barrier(epoch.host()));
  std::cout << fmt::format("route common: {}", fmt::join(numbers, ",")) << std::endl;
  return barrier(epoch.host());
}

Status work(Job& job) {
  const Epoch epoch = job.epoch();
  const int rank = epoch.rank();
  const Topology& hosts = epoch.topology();
  std::cout << fmt::format("route local {} of {}, cross {} of {}, shares memory with 0: {}",
                           hosts.localRank(rank), hosts.localSize(rank), hosts.crossRank(rank),
                           hosts.crossSize(rank), hosts.sharesMemory(rank, 0))
            << std::endl;
  COLLA_TRY(tell("world", epoch.world()));
  COLLA_TRY(subgroup("pair", epoch.world(), {rank / 2 * 2, rank / 2 * 2 + 1}));
  COLLA_TRY(subgroup("across", epoch.world(), {rank % 2, rank % 2 + 2}));
  COLLA_TRY(writeInCommon(job));
  const auto& members = epoch.host().core().options().members;
  std::cout << fmt::format("route host: {} by {}", fmt::join(members, ","),
                           epoch.host().core().options().transport->name())
            << std::endl;

  COLLA_TRY(job.replaceEpoch(EpochPlan{.workers = {3, 0, 2}, .recorder = 2}));
  if (!job.epoch().takesPart()) return {};
  return tell("next", job.world());
}

}  // namespace

int main() {
  auto job = Job::init();
  const Status status = job.ok() ? work(**job) : job.status();
  if (status.ok()) return 0;
  std::cout << status << std::endl;
  return 1;
}
