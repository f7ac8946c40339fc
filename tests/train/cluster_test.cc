// TensorFlow's way of starting, with a program that trains: each process by itself, no launcher.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "train/runs.h"

namespace colla::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ClusterTest : public ::testing::Test {
 protected:
  // Ports only tell jobs apart here; tests that run side by side have lists of their own.
  static std::string address(int number) {
    return "localhost:" + std::to_string(1024 + (getpid() * 16 + number) % 60000);
  }
  std::unique_ptr<launch::CollaProcess> start(const std::string& job, int index,
                                              const Words& words) const {
    const Words lists = {"--no-eval", "--ps_hosts", address(0), "--worker_hosts",
                         address(1) + "," + address(2) + "," + address(3)};
    const Words task = {"--job_name", job, "--task_index", std::to_string(index)};
    return std::make_unique<launch::CollaProcess>(
        smallRun("mlp", run_, joined(joined(lists, task), words)), programOptions());
  }
  // A whole job; what worker 0 said. The server ends by itself, as the workers do.
  std::string train(const Words& how) {
    const Words words = joined(how, {"--steps", "12"});
    const auto worker2 = start("worker", 2, words);
    const auto server = start("ps", 0, words);
    const auto worker0 = start("worker", 0, words);
    const auto worker1 = start("worker", 1, words);
    for (auto* process : {worker0.get(), worker1.get(), worker2.get(), server.get()}) {
      EXPECT_EQ(process->wait(), 0) << process->err();
    }
    // A server has a terminal of its own, which would otherwise stay empty.
    EXPECT_THAT(server->err(), AllOf(HasSubstr("serving 3 workers at " + address(0) + "\n"),
                                     HasSubstr("all workers have left: this server has done")));
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

// Whoever started each process by hand has to go on with each of them.
TEST_F(ClusterTest, SaysHowAllProcessesGoOn) {
  const auto server = start("ps", 0, {"--sync_replicas", "--steps", "1000000"});
  std::vector<std::unique_ptr<launch::CollaProcess>> workers;
  for (int i = 0; i < 3; ++i) {
    workers.push_back(start("worker", i, {"--sync_replicas", "--steps", "1000000"}));
  }
  ASSERT_TRUE(server->complains("serving 3 workers")) << server->err();
  ASSERT_TRUE(launch::eventually([&] { return std::filesystem::exists(run_ + "/log.txt"); }));
  ASSERT_EQ(kill(workers[0]->pid(), SIGINT), 0);
  for (const auto& worker : workers) EXPECT_EQ(worker->wait(), 130) << worker->err();
  EXPECT_EQ(server->wait(), 0) << server->err();
  EXPECT_THAT(
      workers[0]->err(),
      AllOf(HasSubstr(" is saved in " + run_ + "; go on with, and the other processes likewise: "),
            HasSubstr(" --task_index 0 "), HasSubstr(" --resume\n")));
}

// Twelve updates of two gradients each, of three workers.
TEST_F(ClusterTest, ReplicasToAggregateCountsTheListedWorkers) {
  EXPECT_THAT(train({"--sync_replicas=True", "--replicas_to_aggregate=2"}),
              HasSubstr("24 gradients taken"));
}

}  // namespace
}  // namespace colla::train
