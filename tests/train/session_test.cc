// A run from the outside: what it prints, keeps and refuses, and how it ends.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "checkpoint/directory.h"
#include "train/runs.h"

namespace colla::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// The command that a run which ended too early offers, for its newest checkpoint; "" if none.
std::string offeredCommand(const std::string& said, const std::string& run) {
  const std::string offer =
      fmt::format("step {} is saved in {}; go on with: ", stepsIn(run).back(), run);
  const auto found = said.find(offer);
  if (found == std::string::npos) return "";
  const std::string command = said.substr(found + offer.size());
  return command.substr(0, command.find('\n'));
}

TEST(SessionTest, PrintsEpochsAsKerasDoes) {
  const Ended ended = runProgram({"mlp", "--epochs", "2", "--batch", "301"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(
      ended.out,
      MatchesRegex("Epoch 1/2\n2/2 - [0-9]+s - loss: [0-9.]+ - accuracy: [0-9.]+ - val_loss: "
                   "[0-9.]+ - val_accuracy: [0-9.]+\n"
                   "Epoch 2/2\n2/2 - [0-9]+s - loss: [0-9.]+ - accuracy: [0-9.]+ - val_loss: "
                   "[0-9.]+ - val_accuracy: [0-9.]+\n"));
  EXPECT_THAT(ended.err, HasSubstr("strategy single, 1 worker, 1 slice, seed 1"));
}

// Contract: a task that is not whole is one line, before any worker starts where that can be known.
TEST(SessionTest, RefusesATaskThatIsNotWhole) {
  for (const std::string what : {"model", "data"}) {
    const Ended ended = runProgram({"no-" + what, "--np", what == "model" ? "2" : "1"});
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_THAT(ended.err,
                MatchesRegex("[^\n]*train_program: the task has no " + what + ": [^\n]*\n"));
  }
  const Ended ended = runProgram({"null-model"});
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_THAT(
      ended.err,
      HasSubstr("train_program: the task's model gave a null pointer: return a colla::Model"));
}

TEST(SessionTest, ANullModuleIsRefused) {
  for (const std::string model : {"null-module", "null-module-and-loss"}) {
    const Ended ended = runProgram({model});
    EXPECT_EQ(ended.code, 1) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("train_program: the task's model gave a null pointer: "));
  }
}

TEST(SessionTest, KeepsARunDirectory) {
  const Scratch scratch;
  const std::string run = scratch.at("run");
  const std::string json = scratch.at("steps.json");
  const Ended ended = runProgram(
      smallRun("conv", run, {"--steps", "12", "--save-every", "3", "--keep", "2", "--json", json}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(stepsIn(run), (std::vector<std::int64_t>{9, 12}));

  std::ifstream log(run + "/log.txt");
  std::ostringstream text;
  text << log.rdbuf();
  EXPECT_THAT(text.str(),
              AllOf(HasSubstr("step\tstart\tend\tloss\taccuracy\n1\t"), HasSubstr("\n12\t")));
  std::ifstream lines(json);
  int count = 0;
  std::string last;
  for (std::string line; std::getline(lines, line); ++count) last = line;
  EXPECT_EQ(count, 13);
  EXPECT_THAT(last, AllOf(HasSubstr("\"total\":true"), HasSubstr("\"steps\":12"),
                          HasSubstr("val_accuracy")));
  bool events = false;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    events |= entry.path().filename().string().starts_with("events.out.tfevents");
  }
  EXPECT_TRUE(events);
}

TEST(SessionTest, TheInitialStateIsStepZero) {
  const Scratch scratch;
  const Ended ended =
      runProgram(smallRun("mlp", scratch.at("run"), {"--steps", "1", "--keep", "all"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(stepsIn(scratch.at("run")), (std::vector<std::int64_t>{0, 1}));
}

TEST(SessionTest, AFinishedRunSaysSoAndWhatItIsWorth) {
  const Scratch scratch;
  const std::string run = scratch.at("run");
  ASSERT_EQ(runProgram(smallRun("mlp", run, {"--steps", "2"})).code, 0);
  const Ended ended = runProgram(smallRun("mlp", run, {"--steps", "2", "--resume", "--np", "2"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("step 2 was the last one: nothing is left to train"),
                               HasSubstr("step 2 - val_loss: ")));
}

// Also between the ends of epochs, whose lines have theirs.
TEST(SessionTest, TellsEveryEvaluation) {
  const Scratch scratch;
  const std::string json = scratch.at("steps.json");
  const Ended ended =
      runProgram({"mlp", "--epochs", "1", "--batch", "50", "--eval-every", "5", "--json", json});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("step 5 - val_loss: "), HasSubstr("step 10 - val_loss: "),
                               HasSubstr(" - val_accuracy: "), Not(HasSubstr("step 13 - "))));
  EXPECT_THAT(ended.out, HasSubstr("val_loss"));
  std::ifstream lines(json);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const bool evaluated = ++number == 5 || number == 10 || number >= 13;
    EXPECT_EQ(line.find("\"val_accuracy\"") != std::string::npos, evaluated) << line;
  }
  EXPECT_EQ(number, 14);
}

// Contract: the default means the same for --steps and --epochs: after every epoch, here of 13
// steps, and at the end.
TEST(SessionTest, StepsAreEvaluatedAsEpochsAre) {
  const Scratch scratch;
  const auto evaluated = [&](const Words& length) {
    const std::string json = scratch.at("steps.json");
    const Ended ended =
        runProgram(joined({"mlp", "--batch", "50", "--quiet", "--json", json}, length));
    EXPECT_EQ(ended.code, 0) << ended.err;
    std::vector<int> steps;
    std::ifstream lines(json);
    int step = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line.find("\"total\"") != std::string::npos) break;
      ++step;
      if (line.find("\"val_loss\"") != std::string::npos) steps.push_back(step);
    }
    return steps;
  };
  EXPECT_EQ(evaluated({"--epochs", "2"}), (std::vector{13, 26}));
  EXPECT_EQ(evaluated({"--steps", "26"}), (std::vector{13, 26}));
  EXPECT_EQ(evaluated({"--steps", "30"}), (std::vector{13, 26, 30}));
  EXPECT_EQ(evaluated({"--steps", "30", "--eval-every", "20"}), (std::vector{20, 30}));
}

// The loss is of the parameters before the step.
TEST(SessionTest, SavesNothingThatIsNotFinite) {
  const Scratch scratch;
  struct Case {
    std::string model;
    Words how;
    std::string tensor;
  };
  const std::vector<Case> cases = {
      {"mlp", {"--np", "1"}, "\"hidden.weight\""},
      {"mlp", {"--strategy", "mirrored", "--np", "2"}, "\"hidden.weight\""},
      {"mlp", {"--strategy", "ps-sync", "--np", "2"}, "\"hidden.weight\""},
      {"only-table", {"--strategy", "ps-sync", "--np", "2"}, "\"table.weight\""},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string run = scratch.at(std::to_string(i));
    const Words words = {"--steps", "1", "--lr", "1e39", "--no-eval"};
    const Ended ended = runProgram(smallRun(cases[i].model, run, joined(words, cases[i].how)));
    EXPECT_EQ(ended.code, 1) << i << ended.err;
    EXPECT_THAT(ended.err,
                AllOf(HasSubstr("step 1 is not saved; the first tensor that is not finite is " +
                                cases[i].tensor),
                      HasSubstr("the checkpoint of step 0 is from before")));
    EXPECT_EQ(stepsIn(run), (std::vector<std::int64_t>{0})) << i;
  }
  // One that was saved all the same is not gone on from.
  const std::string run = scratch.at("bad");
  const Words bad = {"--steps", "1", "--lr", "1e39", "--no-eval", "--no-nan-guard"};
  ASSERT_EQ(runProgram(smallRun("mlp", run, bad)).code, 0);
  const Ended ended = runProgram(smallRun("mlp", run, {"--steps", "2", "--resume"}));
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("\"hidden.weight\" of the checkpoint of step 1 is not finite: "
                                   "resume from an earlier one"));
}

TEST(SessionTest, LbfgsIsRefusedByName) {
  const Ended ended = runProgram({"lbfgs", "--steps", "1", "--quiet", "--no-eval"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("torch::optim::LBFGS computes the loss again in each step"));
}

TEST(SessionTest, StopsAtALossThatIsNoNumber) {
  const Scratch scratch;
  for (const Words& how : {Words{"--np", "1"}, Words{"--strategy", "mirrored", "--np", "2"}}) {
    Words words =
        smallRun("conv", scratch.at("run" + how.back()), {"--steps", "20", "--lr", "1e39"});
    words.insert(words.end(), how.begin(), how.end());
    const Ended ended = runProgram(words);
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.err, AllOf(HasSubstr("the loss of step "), HasSubstr("\"conv.weight\""),
                                 HasSubstr("the checkpoint of step 0")));
  }
}

// With several slices in a step it would depend on the workers which of them see the change.
TEST(SessionTest, AModelThatWritesToItsParametersIsRefusedByName) {
  for (const Words& how : {Words{"--np", "1", "--slices", "2"}, Words{"--np", "2"},
                           Words{"--np", "2", "--strategy", "mirrored"}}) {
    const Ended ended = runProgram(joined({"renorm", "--quiet", "--steps", "3"}, how));
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.err, HasSubstr("writes to its parameter \"table.weight\""));
  }
  const Ended alone = runProgram({"renorm", "--quiet", "--steps", "3", "--slices", "1"});
  EXPECT_EQ(alone.code, 0) << alone.err;
}

TEST(SessionTest, WrongFlagsAreToldInOneLine) {
  const auto refused = [](const Words& words) {
    const Ended ended = runProgram(words);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_EQ(std::ranges::count(ended.err, '\n'), 1) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(refused({"mlp", "--np", "3", "--slices", "2"}),
              HasSubstr("3 workers can't share 2 slices"));
  EXPECT_THAT(refused({"mlp", "--strategy", "ring"}), HasSubstr("no strategy \"ring\""));
  EXPECT_THAT(refused({"mlp", "--strategy", "single", "--np", "2"}),
              HasSubstr("single has one worker"));
  EXPECT_THAT(refused({"mlp", "--batch", "0"}), HasSubstr("--batch is 0"));
  EXPECT_THAT(refused({"mlp", "--resume"}), HasSubstr("--checkpoint-dir"));
  EXPECT_THAT(refused({"mlp", "--nonsense"}), HasSubstr("--nonsense"));
  EXPECT_THAT(refused({"mlp", "--lr-schedule", "sawtooth"}), HasSubstr("sawtooth"));
  EXPECT_THAT(refused({"mlp", "--epochs", "1", "--steps", "2"}),
              HasSubstr("give --epochs or --steps, not both"));
  EXPECT_THAT(refused({"mlp", "--seed", "-1"}), HasSubstr("--seed is \"-1\""));
  EXPECT_THAT(refused({"lstm", "--scale-lr"}), HasSubstr("--scale-lr needs --optimizer"));
}

TEST(SessionTest, UnderscoresAreDashes) {
  const Ended ended = runProgram({"mlp", "--batch_size", "602", "--no_eval", "--quiet"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("batch 602"));
}

class InterruptTest : public testing::TestWithParam<Words> {};

// Ctrl-C saves and leaves; the run that goes on is the one that was never interrupted.
TEST_P(InterruptTest, SavesAndLeaves) {
  const Scratch scratch;
  const std::string run = scratch.at("run");
  Words words = smallRun("mlp", run, {"--steps", "1000000", "--save-every", "5"});
  words.insert(words.end(), GetParam().begin(), GetParam().end());
  launch::CollaProcess process(words, programOptions());
  ASSERT_TRUE(launch::eventually([&] {
    const auto steps = checkpoint::Directory(run + "/checkpoints").list();
    return steps.ok() && !steps->empty() && steps->back() >= 10;
  })) << process.err();
  ASSERT_EQ(kill(process.pid(), SIGINT), 0);
  EXPECT_EQ(process.wait(), 130) << process.err();
  EXPECT_TRUE(launch::eventually([&] { return process.gone(); }));
  const std::int64_t reached = stepsIn(run).back();
  EXPECT_THAT(process.err(),
              HasSubstr(fmt::format("step {} is saved in {}; go on with: ", reached, run)));

  const Words until = {"--steps", std::to_string(reached + 3)};
  words = smallRun("mlp", run, until);
  words.push_back("--resume");
  ASSERT_EQ(runProgram(words).code, 0);
  ASSERT_EQ(runProgram(smallRun("mlp", scratch.at("whole"), until)).code, 0);
  EXPECT_EQ(differencesAt(run, scratch.at("whole"), reached + 3), "");
}

// The step that the first Ctrl-C waits for does not end. What is saved by then is named.
TEST_P(InterruptTest, ASecondOneLeavesAtOnce) {
  const Scratch scratch;
  Words words = {"endless", "--no-eval", "--checkpoint-dir", scratch.at("run"), "--log", "debug"};
  words.insert(words.end(), GetParam().begin(), GetParam().end());
  launch::CollaProcess process(words, programOptions());
  ASSERT_TRUE(process.says("in the first step")) << process.err();
  ASSERT_TRUE(launch::eventually([&] {
    return process.err().find("saved " + scratch.at("run")) != std::string::npos;
  })) << process.err();
  // Two signals that are pending at once are one: the second is sent until it has been heard.
  EXPECT_TRUE(launch::eventually([&] {
    kill(process.pid(), SIGINT);
    return process.gone();
  })) << process.err();
  EXPECT_EQ(process.wait(), 130) << process.err();
  EXPECT_THAT(process.err(),
              HasSubstr("step 0 is saved in " + scratch.at("run") + "; go on with: "));
}

INSTANTIATE_TEST_SUITE_P(Strategies, InterruptTest,
                         testing::Values(Words{"--np", "1"},
                                         Words{"--strategy", "mirrored", "--np", "2"},
                                         Words{"--strategy", "allreduce", "--np", "2"}),
                         [](const auto& test) {
                           return test.param.size() == 2 ? "single" : test.param[1];
                         });

// A worker that is killed ends the run with its name; what was saved stays.
TEST(SessionTest, AKilledWorkerEndsTheRun) {
  const Scratch scratch;
  const std::string run = scratch.at("run");
  launch::CollaProcess process(
      smallRun("mlp", run, {"--steps", "1000000", "--save-every", "5", "--np", "2"}),
      programOptions());
  ASSERT_TRUE(launch::eventually([&] {
    const auto steps = checkpoint::Directory(run + "/checkpoints").list();
    return steps.ok() && !steps->empty() && steps->back() >= 10;
  })) << process.err();
  ASSERT_EQ(kill(process.worker(1), SIGKILL), 0);
  EXPECT_EQ(process.wait(), 128 + SIGKILL);
  EXPECT_THAT(process.err(), HasSubstr("worker 1"));
  EXPECT_TRUE(launch::eventually([&] { return process.gone(); }));
  EXPECT_TRUE(checkpoint::Directory(run + "/checkpoints").loadNewest().ok());

  // The command that it names goes on; this one to an end.
  const std::int64_t reached = stepsIn(run).back();
  std::string command = offeredCommand(process.err(), run);
  const auto steps = command.find("1000000");
  ASSERT_NE(steps, std::string::npos) << command;
  command.replace(steps, 7, std::to_string(reached + 2));
  EXPECT_EQ(std::system((command + " 2> /dev/null").c_str()), 0) << command;
  EXPECT_EQ(stepsIn(run).back(), reached + 2);
}

// Contract: so does one that ends with an exit code, or by an error of the program's own, and a
// front whose guardian is killed.
TEST(SessionTest, EveryFailedEndSaysHowToGoOn) {
  const Scratch scratch;
  const std::string run = scratch.at("run");
  const Words steps = {"--no-eval", "--steps", "1000000", "--save-every", "2"};
  const Ended exited =
      runProgram(smallRun("mlp+exits-after-step", run, joined(steps, {"--np", "2"})));
  EXPECT_EQ(exited.code, 3) << exited.err;
  EXPECT_NE(offeredCommand(exited.err, run), "") << exited.err;
  for (const std::string workers : {"1", "2"}) {
    const std::string other = scratch.at(workers);
    const Ended threw =
        runProgram(smallRun("mlp+throws-after-step", other, joined(steps, {"--np", workers})));
    EXPECT_EQ(threw.code, 1) << threw.err;
    EXPECT_NE(offeredCommand(threw.err, other), "") << threw.err;
  }
  const std::string guarded = scratch.at("guarded");
  launch::CollaProcess process(smallRun("mlp", guarded, joined(steps, {"--np", "2"})),
                               programOptions());
  ASSERT_TRUE(launch::eventually([&] {
    const auto saved = checkpoint::Directory(guarded + "/checkpoints").list();
    return saved.ok() && !saved->empty() && saved->back() >= 10;
  })) << process.err();
  ASSERT_EQ(kill(process.guardian(), SIGKILL), 0);
  EXPECT_EQ(process.wait(), 1) << process.err();
  EXPECT_NE(offeredCommand(process.err(), guarded), "") << process.err();
  // What was refused has trained nothing.
  EXPECT_THAT(runProgram(smallRun("mlp", run, {"--np", "2", "--batch", "0"})).err,
              Not(HasSubstr("go on with")));
}

// Contract: the offered command goes on from the newest checkpoint, also where this run was to
// begin at an earlier one.
TEST(SessionTest, TheOfferedCommandDoesNotGoBack) {
  const Scratch scratch;
  const std::string run = scratch.at("run");
  ASSERT_EQ(runProgram(smallRun("mlp", run, {"--no-eval", "--steps", "2"})).code, 0);
  const Words common = {"mlp+throws-after-step",
                        "--threads",
                        "1",
                        "--batch",
                        "50",
                        "--quiet",
                        "--no-eval",
                        "--steps",
                        "9",
                        "--save-every",
                        "1"};
  for (const Words& how : std::vector<Words>{{"--checkpoint-dir", run + "@2", "--resume"},
                                             {"--run_dir=" + run + "@2", "--resume"},
                                             {"--checkpoint", run + "@2", "--resume"},
                                             {"--resume", "2", "--run-dir", run},
                                             {"--resume=2", "--checkpoint_dir", run}}) {
    const Ended ended = runProgram(joined(common, how));
    const std::string command = offeredCommand(ended.err, run);
    EXPECT_THAT(command, AllOf(Not(HasSubstr("@")), Not(HasSubstr("resume 2")),
                               Not(HasSubstr("resume=2")), HasSubstr(run)))
        << ended.err;
    EXPECT_TRUE(command.ends_with(" --resume")) << command;
    const std::int64_t newest = stepsIn(run).back();
    ASSERT_GT(newest, 2);
    const std::string log = scratch.at("log");
    (void)std::system((command + " > /dev/null 2> " + log).c_str());
    std::ostringstream said;
    said << std::ifstream(log).rdbuf();
    EXPECT_THAT(said.str(), HasSubstr(fmt::format("resuming from step {}", newest))) << command;
  }
}

// Contract: the report is of the worker that failed, not of one that ended first because of it.
TEST(SessionTest, TheReportNamesTheWorkerThatFailed) {
  const Ended ended = runProgram({"mlp+throws-after-step", "--quiet", "--no-eval", "--np", "2"});
  EXPECT_EQ(ended.code, 1);
  const auto report = ended.err.find("train_program: worker 0 on host");
  ASSERT_NE(report, std::string::npos) << ended.err;
  EXPECT_THAT(ended.err.substr(report),
              AllOf(HasSubstr("ended with exit code 1"), HasSubstr("the hook is out of hooks")));
}

// Contract: so does a run that one of its workers does not answer any more.
TEST(SessionTest, AStoppedWorkerEndsTheRun) {
  const Scratch scratch;
  const std::string run = scratch.at("run");
  launch::CollaProcess process(smallRun("mlp", run,
                                        {"--steps", "1000000", "--save-every", "5", "--np", "2",
                                         "--collective-timeout", "1"}),
                               programOptions());
  ASSERT_TRUE(launch::eventually([&] {
    const auto steps = checkpoint::Directory(run + "/checkpoints").list();
    return steps.ok() && !steps->empty() && steps->back() >= 5;
  })) << process.err();
  ASSERT_EQ(kill(process.worker(1), SIGSTOP), 0);
  EXPECT_EQ(process.wait(), 1) << process.err();
  EXPECT_THAT(process.err(),
              AllOf(HasSubstr("did not answer for 1"), HasSubstr("(collective_timeout)\n"),
                    HasSubstr(fmt::format(
                        "step {} is saved in {}; go on with: ", stepsIn(run).back(), run))));
}

// Contract: whoever is asked to end says what is left of the run, or that nothing is.
TEST(SessionTest, SaysWhatIsLeftAfterSigterm) {
  const Scratch scratch;
  for (const Words& how : {Words{"--np", "1"}, Words{"--np", "2"}}) {
    for (const bool saves : {true, false}) {
      const std::string run = scratch.at("it's run" + how[1]);
      Words words = joined({"mlp", "--no-eval", "--epochs", "1000000", "--batch", "50"}, how);
      if (saves) words = joined(words, {"--checkpoint-dir", run});
      launch::CollaProcess process(words, programOptions());
      ASSERT_TRUE(process.says("Epoch 2/")) << process.err();
      ASSERT_EQ(kill(process.pid(), SIGTERM), 0);
      EXPECT_EQ(process.wait(), how[1] == "1" ? 130 : 128 + SIGTERM) << process.err();
      if (!saves) {
        EXPECT_THAT(process.err(), HasSubstr("nothing is saved: --checkpoint-dir DIR keeps"));
        continue;
      }
      EXPECT_THAT(process.err(),
                  AllOf(HasSubstr(fmt::format("step {} is saved in ", stepsIn(run).back())),
                        HasSubstr("--checkpoint-dir '" + scratch.at("it'\\''s run" + how[1]) +
                                  "' --resume\n")));
    }
  }
}

// One checkpoint fits, a second does not. The file system is in a mount namespace of our own.
TEST(SessionTest, AFullDiskEndsTheRunAndTheLastGoodCheckpointIsOffered) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can mount a small file system";
  const Scratch scratch;
  const std::string disk = scratch.at("disk");
  std::filesystem::create_directory(disk);
  if (unshare(CLONE_NEWNS) != 0 ||
      mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=400k") != 0) {
    GTEST_SKIP() << "cannot mount here: " << std::strerror(errno);
  }
  const Ended ended = runProgram(smallRun("mlp", disk + "/run", {"--steps", "2", "--no-eval"}));
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("step 2 was not saved"), HasSubstr("No space left"),
                    HasSubstr("; step-00000000 is whole: resume from it with --resume 0")));
  EXPECT_EQ(stepsIn(disk + "/run"), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(umount(disk.c_str()), 0);
}

}  // namespace
}  // namespace colla::train
