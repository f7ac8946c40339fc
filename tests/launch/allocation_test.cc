#include "launch/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace colla::launch {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Result<std::vector<AllocatedNode>> nodesOf(const Variables& variables) {
  return allocatedNodes([&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

Variables twoNodes(const Variables& more) {
  Variables variables = {{"SLURM_JOB_ID", "7"},
                         {"SLURM_JOB_NODELIST", "node[1-2]"},
                         {"SLURM_JOB_CPUS_PER_NODE", "4,8"}};
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

TEST(AllocationTest, NodesHaveTheTasksThatWereAskedFor) {
  const auto nodes = nodesOf(twoNodes({{"SLURM_NTASKS", "3"}, {"SLURM_TASKS_PER_NODE", "2,1"}}));
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  ASSERT_EQ(nodes->size(), 2u);
  EXPECT_EQ((*nodes)[0].name, "node1");
  EXPECT_EQ((*nodes)[0].slots, 2);
  EXPECT_EQ((*nodes)[1].slots, 1);
  EXPECT_EQ((*nodes)[1].cpus, 8);
}

TEST(AllocationTest, NodesHaveAsManyTasksAsTheirCpusTake) {
  const auto nodes = nodesOf(twoNodes({{"SLURM_CPUS_PER_TASK", "2"}}));
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_EQ((*nodes)[0].slots, 2);
  EXPECT_EQ((*nodes)[1].slots, 4);
}

TEST(AllocationTest, ATaskOfAStepHasItsPlace) {
  const auto nodes = nodesOf(twoNodes({{"SLURM_NTASKS", "2"},
                                       {"SLURM_TASKS_PER_NODE", "1(x2)"},
                                       {"SLURM_STEP_ID", "0"},
                                       {"SLURM_STEP_NUM_TASKS", "1"},
                                       {"SLURM_PROCID", "0"}}));
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  EXPECT_TRUE(nodes->empty());
  EXPECT_TRUE(nodesOf({})->empty());
}

TEST(AllocationTest, ContradictionsAreNamed) {
  const auto nodes = nodesOf(twoNodes({{"SLURM_NTASKS", "3"}, {"SLURM_TASKS_PER_NODE", "3"}}));
  EXPECT_EQ(nodes.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(nodes.status().message()), HasSubstr("\"node[1-2]\""));
}

// An allocation's own variables would change the step that the agent is in.
TEST(AllocationTest, TheAgentMayUseAllOfItsNode) {
  const auto words = srunCommand({.name = "node2", .slots = 2, .cpus = 8}, {"/opt/colla"});
  for (const char* word : {"--nodelist=node2", "--ntasks=1", "--ntasks-per-node=1",
                           "--cpus-per-task=8", "--overlap", "--mem=0", "--cpu-bind=none"}) {
    EXPECT_THAT(words, ::testing::Contains(word));
  }
  EXPECT_EQ(words.back(), "/opt/colla");
}

}  // namespace
}  // namespace colla::launch
