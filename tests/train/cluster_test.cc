// TensorFlow's way of starting, with a program that trains: each process by itself, no launcher.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "train/runs.h"

namespace colla::train {
namespace {

using ::testing::HasSubstr;

class ClusterTest : public ::testing::Test {
 protected:
  // Ports only tell jobs apart here; tests that run side by side have lists of their own.
  static std::string address(int number) {
    return "localhost:" + std::to_string(1024 + (getpid() * 16 + number) % 60000);
  }
  std::unique_ptr<launch::CollaProcess> start(const std::string& job, int index,
                                              const Words& words) const {
    const Words lists = {"--no-eval",
                         "--steps",
                         "12",
                         "--ps_hosts",
                         address(0),
                         "--worker_hosts",
                         address(1) + "," + address(2) + "," + address(3)};
    const Words task = {"--job_name", job, "--task_index", std::to_string(index)};
    return std::make_unique<launch::CollaProcess>(
        smallRun("mlp", run_, joined(joined(lists, task), words)), programOptions());
  }
  // A whole job; what worker 0 said. The server ends by itself, as the workers do.
  std::string train(const Words& words) {
    const auto worker2 = start("worker", 2, words);
    const auto server = start("ps", 0, words);
    const auto worker0 = start("worker", 0, words);
    const auto worker1 = start("worker", 1, words);
    for (auto* process : {worker0.get(), worker1.get(), worker2.get(), server.get()}) {
      EXPECT_EQ(process->wait(), 0) << process->err();
    }
    return worker0->err();
  }

  const Scratch scratch_;
  const std::string run_ = scratch_.at("run");
};

TEST_F(ClusterTest, ServersMeanAsync) {
  EXPECT_THAT(train({}), HasSubstr("strategy ps-async, 3 workers, 1 server"));
}

TEST_F(ClusterTest, SyncReplicasMeanTheBitsOfASingleProcess) {
  EXPECT_THAT(train({"--sync_replicas"}), HasSubstr("strategy ps-sync, 3 workers, 1 server"));
  const std::string single = scratch_.at("single");
  const Ended ended =
      runProgram(smallRun("mlp", single, {"--no-eval", "--steps", "12", "--strategy", "single"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(differencesAt(single, run_, 12), "");
}

// Twelve updates of two gradients each, of three workers.
TEST_F(ClusterTest, ReplicasToAggregateCountsTheListedWorkers) {
  EXPECT_THAT(train({"--sync_replicas=True", "--replicas_to_aggregate=2"}),
              HasSubstr("24 gradients taken"));
}

}  // namespace
}  // namespace colla::train
