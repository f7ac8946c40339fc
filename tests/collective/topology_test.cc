#include "colla/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace colla {
namespace {

using ::testing::ElementsAre;

const std::vector<std::string> kHosts = {"b", "a", "b", "a", "b", "c"};

template <typename Of>
std::vector<int> byRank(const Topology& topology, Of of) {
  std::vector<int> numbers;
  for (int rank = 0; rank < topology.workers(); ++rank) numbers.push_back((topology.*of)(rank));
  return numbers;
}

TEST(TopologyTest, HostsAreNumberedByTheirLowestRanks) {
  const Topology topology(kHosts, true);
  EXPECT_EQ(topology.workers(), 6);
  EXPECT_EQ(topology.hosts(), 3);
  EXPECT_THAT(byRank(topology, &Topology::hostOf), ElementsAre(0, 1, 0, 1, 0, 2));
  EXPECT_THAT(topology.ranksOn(0), ElementsAre(0, 2, 4));
  EXPECT_THAT(topology.ranksOn(1), ElementsAre(1, 3));
  EXPECT_THAT(topology.ranksOn(2), ElementsAre(5));
}

TEST(TopologyTest, LocalAndCrossRanksAreHorovods) {
  const Topology topology(kHosts, true);
  EXPECT_THAT(byRank(topology, &Topology::localRank), ElementsAre(0, 0, 1, 1, 2, 0));
  EXPECT_THAT(byRank(topology, &Topology::localSize), ElementsAre(3, 2, 3, 2, 3, 1));
  EXPECT_THAT(byRank(topology, &Topology::crossRank), ElementsAre(0, 1, 0, 1, 0, 2));
  EXPECT_THAT(byRank(topology, &Topology::crossSize), ElementsAre(3, 3, 2, 2, 1, 3));
}

TEST(TopologyTest, RanksOfAHostShareMemoryUnlessTheJobHasNone) {
  const Topology several(kHosts, true);
  EXPECT_TRUE(several.sharesMemory(0, 4));
  EXPECT_FALSE(several.sharesMemory(0, 1));
  EXPECT_FALSE(several.sharesMemory());
  const std::vector<std::string> one = {"a", "a"};
  EXPECT_TRUE(Topology(one, true).sharesMemory());
  EXPECT_FALSE(Topology(one, false).sharesMemory());
  EXPECT_FALSE(Topology(one, false).sharesMemory(0, 1));
}

}  // namespace
}  // namespace colla
