// What runs with parameter servers survive, and what they say of what they don't: real processes,
// real signals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "checkpoint/directory.h"
#include "colla/strategy.h"
#include "train/runs.h"

namespace colla::train {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A run under way, with a checkpoint every five updates.
class ServerFaultsTest : public ::testing::Test {
 protected:
  void begin(const Words& words, const std::string& model = "mlp") {
    std::filesystem::remove_all(run_);
    process_.emplace(
        smallRun(model, run_,
                 joined({"--no-eval", "--steps", "1000000", "--save-every", "5"}, words)),
        programOptions());
  }
  std::int64_t saved() const {
    const auto steps = checkpoint::Directory(run_ + "/checkpoints").list();
    return steps.ok() && !steps->empty() ? steps->back() : -1;
  }
  bool reaches(std::int64_t step) {
    return launch::eventually([&] { return saved() >= step; });
  }
  bool says(const std::string& text, std::chrono::milliseconds limit = 20s) {
    return launch::eventually([&] { return process_->err().find(text) != std::string::npos; },
                              limit);
  }
  // What Ctrl-C leaves: an exit code of 130, a checkpoint, no process.
  void interrupt() {
    ASSERT_EQ(kill(process_->pid(), SIGINT), 0);
    EXPECT_EQ(process_->wait(), 128 + SIGINT) << process_->err();
    EXPECT_TRUE(launch::eventually([&] { return process_->gone(); }));
    EXPECT_TRUE(checkpoint::Directory(run_ + "/checkpoints").loadNewest().ok());
  }

  const Scratch scratch_;
  const std::string run_ = scratch_.at("run");
  std::optional<launch::CollaProcess> process_;
};

TEST_F(ServerFaultsTest, AKilledServerIsNamedAndLosesNothingThatWasSaved) {
  begin({"--strategy", "ps-sync", "--np", "2", "--ps", "2"});
  ASSERT_TRUE(reaches(10)) << process_->err();
  ASSERT_EQ(kill(process_->member("ps", 1), SIGKILL), 0);
  const auto killed = std::chrono::steady_clock::now();
  EXPECT_TRUE(says("ps 1 on host", 2s)) << process_->err();
  EXPECT_EQ(process_->wait(), 128 + SIGKILL) << process_->err();
  EXPECT_LT(std::chrono::steady_clock::now() - killed, 10s);  // Processes take a while to exit.
  EXPECT_TRUE(launch::eventually([&] { return process_->gone(); }));
  const std::int64_t step = saved();
  EXPECT_THAT(process_->err(), HasSubstr("step " + std::to_string(step) + " is saved in " + run_ +
                                         "; go on with: "));
  const Ended resumed =
      runProgram(smallRun("mlp", run_,
                          {"--no-eval", "--resume", "--steps", std::to_string(step + 3),
                           "--strategy", "ps-sync", "--np", "2"}));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(saved(), step + 3);
}

// Every strategy of processes ends with the loss of a worker, or goes on, as the table says; under
// the default options, a backup has to be asked for.
TEST_F(ServerFaultsTest, AKilledWorkerEndsARunThatNeedsItWithItsName) {
  for (const StrategyTraits& traits : strategies()) {
    if (traits.workers != WorkerKind::kProcesses) continue;
    if (traits.whenLost == WhenLost::kOthersGoOn) continue;
    begin({"--strategy", std::string(traits.name), "--np", "2"});
    ASSERT_TRUE(reaches(10)) << process_->err();
    ASSERT_EQ(kill(process_->worker(1), SIGKILL), 0);
    EXPECT_EQ(process_->wait(), 128 + SIGKILL) << traits.name << process_->err();
    EXPECT_THAT(process_->err(), HasSubstr("worker 1"));
    process_.reset();
  }
}

TEST_F(ServerFaultsTest, OthersGoOnWithoutAKilledWorker) {
  for (const Words& words : {Words{"--strategy", "ps-async", "--np", "3"},
                             Words{"--strategy", "ps-ssp", "--np", "3", "--staleness", "4"},
                             Words{"--strategy", "ps-ssp", "--np", "3"},
                             Words{"--strategy", "ps-sync", "--np", "3", "--backup", "1"},
                             Words{"--strategy", "ps-sync", "--np", "3", "--backup", "auto"}}) {
    const auto strategy = parseStrategy(words[1]);
    ASSERT_TRUE(strategy.ok());
    const bool backup = std::ranges::find(words, "--backup") != words.end();
    EXPECT_EQ(traitsOf(*strategy).whenLost,
              backup ? WhenLost::kBackupSpare : WhenLost::kOthersGoOn);
    begin(words);
    ASSERT_TRUE(reaches(10)) << process_->err();
    ASSERT_EQ(kill(process_->worker(2), SIGKILL), 0);
    ASSERT_TRUE(reaches(saved() + 50)) << process_->err();
    interrupt();
    EXPECT_THAT(process_->err(), HasSubstr("worker 2")) << words[1];
    process_.reset();
  }
}

TEST_F(ServerFaultsTest, AStoppedWorkerHoldsUpNobodyUnderBackup) {
  begin({"--strategy", "ps-sync", "--np", "3", "--backup", "1"});
  ASSERT_TRUE(reaches(10)) << process_->err();
  const pid_t worker = process_->worker(2);
  ASSERT_EQ(kill(worker, SIGSTOP), 0);
  const bool wentOn = reaches(saved() + 50);
  kill(worker, SIGCONT);
  ASSERT_TRUE(wentOn) << process_->err();
  // It is told what it missed, and takes part again.
  EXPECT_TRUE(says("dropped the gradients of rank 2")) << process_->err();
  interrupt();
}

TEST_F(ServerFaultsTest, AutoLeavesAStoppedWorkerBehindUntilItKeepsPace) {
  begin({"--strategy", "ps-sync", "--np", "3", "--backup", "auto"});
  ASSERT_TRUE(reaches(20)) << process_->err();
  const pid_t worker = process_->worker(2);
  ASSERT_EQ(kill(worker, SIGSTOP), 0);
  const bool wentOn = says("worker 2 is a straggler") && reaches(saved() + 50);
  kill(worker, SIGCONT);
  ASSERT_TRUE(wentOn) << process_->err();
  EXPECT_TRUE(says("worker 2 keeps pace again")) << process_->err();
  interrupt();
}

TEST_F(ServerFaultsTest, AutoGoesOnWithoutAStragglerThatDies) {
  begin({"--strategy", "ps-sync", "--np", "3", "--backup", "auto"});
  ASSERT_TRUE(reaches(20)) << process_->err();
  const pid_t worker = process_->worker(2);
  ASSERT_EQ(kill(worker, SIGSTOP), 0);
  ASSERT_TRUE(says("worker 2 is a straggler")) << process_->err();
  ASSERT_EQ(kill(worker, SIGKILL), 0);
  ASSERT_TRUE(says("is lost: ")) << process_->err();
  ASSERT_TRUE(reaches(saved() + 50)) << process_->err();
  interrupt();
}

// The loss says nothing of it: the servers look at what they get.
TEST_F(ServerFaultsTest, AGradientThatIsNotFiniteIsRefusedByName) {
  begin({"--strategy", "ps-async", "--np", "3"}, "poison");
  ASSERT_TRUE(says("refusing rank 1")) << process_->err();
  EXPECT_THAT(process_->err(), HasSubstr("the gradient of \"out.bias\" is not finite"));
  ASSERT_TRUE(reaches(saved() + 50)) << process_->err();  // Without it.
  interrupt();
  process_.reset();
  begin({"--strategy", "ps-sync", "--np", "3"}, "poison");
  EXPECT_EQ(process_->wait(), 1) << process_->err();
  EXPECT_THAT(process_->err(), AllOf(HasSubstr("refusing rank 1"), HasSubstr("worker 1")));
}

TEST_F(ServerFaultsTest, InterruptSavesAndLeaves) {
  for (const char* strategy : {"ps-sync", "ps-async"}) {
    begin({"--strategy", strategy, "--np", "2"});
    ASSERT_TRUE(reaches(5)) << process_->err();
    interrupt();
    process_.reset();
  }
}

}  // namespace
}  // namespace colla::train
