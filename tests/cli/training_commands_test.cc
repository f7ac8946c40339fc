// `colla train`, `models` and `demo` as users call them: what they print, where, and exit
// codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "support/colla_process.h"
#include "support/colla_test.h"

namespace colla::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

class TrainingCommandsTest : public CollaTest {
 protected:
  void writeText(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
};

bool matches(const std::string& text, const std::string& pattern) {
  return std::regex_match(text, std::regex(pattern));
}

// Contract: plain lines of this form on standard output; everything else on standard error.
TEST_F(TrainingCommandsTest, LinesOfEpochs) {
  const Outcome outcome =
      colla("train softmax --data synthetic:mnist:120 --batch_size 50 --epochs 2 --np 2");
  EXPECT_EQ(outcome.exitCode, 0) << outcome.error;
  EXPECT_TRUE(
      matches(outcome.out,
              "Epoch 1/2\n3/3 - [0-9]+s - loss: [0-9]+\\.[0-9]{4} - accuracy: [01]\\.[0-9]{4} - "
              "val_loss: [0-9]+\\.[0-9]{4} - val_accuracy: [01]\\.[0-9]{4}\n"
              "Epoch 2/2\n3/3 - [0-9]+s - loss: [0-9]+\\.[0-9]{4} - accuracy: [01]\\.[0-9]{4} - "
              "val_loss: [0-9]+\\.[0-9]{4} - val_accuracy: [01]\\.[0-9]{4}\n"))
      << outcome.out;
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("strategy allreduce, 2 workers, 2 slices, seed 1"),
                                   HasSubstr("batch 50")));
}

TEST_F(TrainingCommandsTest, SettingsReachEveryStrategy) {
  const std::string flags =
      "train lr --data synthetic:lr:60x8 --steps 1 --no-eval --log warn --strategy ";
  for (const char* way : {"single", "mirrored --np 2", "allreduce --np 2"}) {
    const Outcome outcome = colla(flags + way);
    EXPECT_EQ(outcome.exitCode, 0) << way;
    EXPECT_TRUE(matches(outcome.out, "Step 1/1 - [0-9]+s - loss: [0-9.]+ - accuracy: [0-9.]+\n"))
        << outcome.out;
    EXPECT_THAT(outcome.error, IsEmpty()) << way;
  }
}

// Contract: mpirun, which gives its processes terminals, changes nothing of that.
TEST_F(TrainingCommandsTest, LinesOfEpochsUnderMpirun) {
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  const Outcome outcome = runColla(scratch_.path(),
                                   "--oversubscribe -np 2 " COLLA_BINARY
                                   " train softmax --data synthetic:mnist:120 --batch 50 --epochs 2"
                                   " --no-eval",
                                   "mpirun");
  EXPECT_EQ(outcome.exitCode, 0) << outcome.error;
  const std::string epoch = "3/3 - [0-9]+s - loss: [0-9]+\\.[0-9]{4} - accuracy: [01]\\.[0-9]{4}\n";
  EXPECT_TRUE(matches(outcome.out, "Epoch 1/2\n" + epoch + "Epoch 2/2\n" + epoch)) << outcome.out;
}

// Contract: a training that a script started in the background, where SIGINT is ignored, obeys it,
// with one worker as with several.
TEST_F(TrainingCommandsTest, InterruptIsObeyedInTheBackground) {
  for (const char* const workers : {"1", "2"}) {
    launch::CollaProcess training({"train", "softmax", "--data", "synthetic:mnist:120", "--no-eval",
                                   "--epochs", "1000000", "--np", workers},
                                  {.wrapper = "trap '' INT; exec \"$@\""});
    ASSERT_TRUE(training.says("Epoch 2/")) << training.err();
    kill(training.pid(), SIGINT);
    EXPECT_EQ(training.wait(), 128 + SIGINT) << training.err();
    EXPECT_TRUE(training.gone());
  }
}

// Contract: SIGUSR1, which Slurm sends before a time limit, saves and leaves; the same command with
// --resume auto begins where nothing is saved, and goes on where something is.
TEST_F(TrainingCommandsTest, TimeLimitsSaveAndTheSameCommandGoesOn) {
  for (const char* const workers : {"1", "2"}) {
    const std::vector<std::string> words = {
        "train",   "softmax", "--data", "synthetic:mnist:120", "--no-eval",   "--epochs",
        "1000000", "--np",    workers,  "--checkpoint-dir",    path(workers), "--resume",
        "auto"};
    for (const bool again : {false, true}) {
      launch::CollaProcess training(words);
      ASSERT_TRUE(training.says(again ? "Epoch " : "Epoch 2/")) << training.err();
      kill(training.pid(), SIGUSR1);
      EXPECT_EQ(training.wait(), 128 + SIGINT) << training.err();
      EXPECT_THAT(training.err(), HasSubstr(" is saved in " + path(workers)));
      EXPECT_EQ(training.err().find("resuming from step") != std::string::npos, again);
    }
  }
}

// Contract: one line that says what is wrong, before any worker starts.
TEST_F(TrainingCommandsTest, WhatIsWrongIsToldBeforeAnythingStarts) {
  ASSERT_EQ(colla("train snn --data synthetic:mnist:60 --steps 1 --slices 2 --checkpoint-dir run")
                .exitCode,
            0);
  std::filesystem::create_directory(path("empty"));
  struct Case {
    const char* arguments;
    int exitCode;
    const char* reason;
  };
  for (const auto& [arguments, exitCode, reason] : {
           Case{"train", 2, "MODEL is required"},
           Case{"train --np 2 mlp", 2, "MODEL comes first"},
           Case{"train nothing --np 2", 2, "lr, mlp, resnet50v2"},
           Case{"train mpl --np 2", 2, "; did you mean mlp?"},
           Case{"train mlp --learnrate 1", 2, "no flag --learnrate; did you mean --learning-rate?"},
           Case{"train mlp --lr abc", 2, "--lr is \"abc\", but takes a number"},
           Case{"train mlp --strategy alreduce", 2, "; did you mean allreduce?"},
           Case{"train mlp --optimizer adm", 2, "; did you mean adam?"},
           Case{"train mlp --lr-schedule cosin:9", 2, "; did you mean cosine?"},
           Case{"train mlp --transport shn", 2, "; did you mean shm?"},
           Case{"train mlp --data sythetic:mnist:60", 1, "; did you mean synthetic:mnist?"},
           Case{"train mlp --data mnits:a/b", 1, "; did you mean mnist?"},
           Case{"train mlp --early-stop acuracy --np 2", 2, "; did you mean accuracy?"},
           Case{"train mlp --early-stop recall", 2, "has no metric \"recall\""},
           Case{"train mlp --secret-file gone", 2, "colla train: secret file gone cannot be read"},
           Case{"train mlp --secret-file gone --np 2", 2,
                "colla train: secret file gone cannot be read"},
           Case{"eval snn run --secret-file gone", 2,
                "colla eval: secret file gone cannot be read"},
           Case{"train mlp -lr 0.1", 2, "there is no flag -lr; did you mean --lr?"},
           Case{"train mlp --checkpoint-dir --quiet", 2,
                "--checkpoint-dir takes DIR, but nothing follows it"},
           Case{"train mlp --lr-schedule step:10", 2, "step is written step:EVERY:FACTOR"},
           Case{"train mlp -z", 2, "there is no flag -z"},
           Case{"train mlp --checkpoint-dir run@1", 2,
                "run@1, which is a step to go on from: give "},
           Case{"train mlp --np 2 --bogus", 2, "--bogus"},
           Case{"train mlp --np 2 --hidden 0", 2, "--hidden is \"0\""},
           Case{"train softmax --np 2 --hidden 10", 2, "--hidden"},
           Case{"train mlp --np 2 --optimizer none", 2, "optimizer \"none\" is not one of"},
           Case{"train mlp --np 2 --batch 0", 2, "--batch is 0"},
           Case{"train mlp --eval-every -3", 2, "--eval-every is -3, but takes 0 or more"},
           Case{"train mlp --save-every -3", 2, "--save-every is -3, but takes 0 or more"},
           Case{"train mlp --np 3 --slices 2", 2, "3 workers can't share 2 slices"},
           Case{"train mlp --np 2 --slices 1", 2, "2 workers can't share 1 slice: "},
           Case{"train lr --np 2 --data synthetic:mnist:60", 2, "two classes"},
           Case{"train resnet50v2 --np 2 --include-top false", 2,
                "--include-top false is for colla predict"},
           Case{"eval resnet50v2 --include-top false --checkpoint-dir run", 2,
                "--include-top false is for colla predict"},
           Case{"train resnet50v2 --np 2 --augment yes", 2, "--augment is \"yes\""},
           Case{"train mlp --np 2 --data synthetic:mnist:x", 2, "the size is to be"},
           Case{"train mlp --np 2 --data gone", 1, "neither a data set nor a folder"},
           Case{"train mlp --np 2 --data mnist:empty", 1, "no train-images-idx3-ubyte"},
           Case{"train mlp --np 2 --data synthetic:mnist:60 --checkpoint-dir run --resume", 1,
                "is of the model snn (hidden=100), not of mlp (hidden=100)"},
           Case{"train snn --np 2 --data synthetic:mnist:60 --checkpoint-dir run --resume "
                "--hidden 9",
                1, "is of the model snn (hidden=100), not of snn (hidden=9)"},
           Case{"eval snn --np 2", 2, "colla eval: CHECKPOINT is required"},
           Case{"eval snn --np 2 --checkpoint-dir gone", 1, "no checkpoint in gone"},
           Case{"eval snn --np 2 --checkpoint-dir run@7", 1, "no step 7"},
           Case{"eval mlp --np 2 --data synthetic:mnist:60 --checkpoint-dir run", 1,
                "is of the model snn"},
           Case{"eval snn --strategy none --checkpoint-dir run", 2, "no strategy \"none\""},
           Case{"models --bogus", 2, "--bogus"},
           Case{"demo --bogus", 2, "--bogus"},
       }) {
    const Outcome outcome = colla(arguments);
    EXPECT_EQ(outcome.exitCode, exitCode) << arguments;
    EXPECT_THAT(outcome.error, HasSubstr(reason)) << arguments;
    EXPECT_EQ(std::ranges::count(outcome.error, '\n'), 1) << outcome.error;
    EXPECT_THAT(outcome.out, IsEmpty()) << arguments;
  }
}

// Contract: other data is told; a damaged checkpoint names one that can be evaluated.
TEST_F(TrainingCommandsTest, OtherDataAndADamagedCheckpoint) {
  const std::string run = " --checkpoint-dir run";
  ASSERT_EQ(colla("train snn --data synthetic:mnist:60 --steps 1 --no-eval" + run).exitCode, 0);
  const Outcome other =
      colla("train snn --data synthetic:mnist:120 --steps 2 --no-eval --resume" + run);
  EXPECT_EQ(other.exitCode, 0);
  EXPECT_THAT(other.error, AllOf(HasSubstr("resuming with other data: it was "),
                                 HasSubstr("60 samples"), HasSubstr("120 samples")));
  checkpoint::writeText(path("run/checkpoints/step-00000002/model.safetensors"), "x");
  const Outcome damaged = colla("eval snn --data synthetic:mnist:60" + run);
  EXPECT_EQ(damaged.exitCode, 1);
  EXPECT_THAT(damaged.error, HasSubstr("; step-00000001 is whole: take it as run@1\n"));
}

TEST_F(TrainingCommandsTest, Models) {
  const Outcome outcome = colla("models");
  EXPECT_EQ(outcome.exitCode, 0);
  EXPECT_THAT(outcome.out, HasSubstr("mlp             89,610  synthetic:mnist"));
  const auto json = nlohmann::json::parse(colla("models --json").out, nullptr, false);
  const auto lm = std::ranges::find_if(json, [](const auto& each) { return each["name"] == "lm"; });
  ASSERT_NE(lm, json.end());
  EXPECT_EQ((*lm)["data"], "synthetic:text");
  EXPECT_THAT((*lm)["flags"].get<std::string>(), HasSubstr("vocab=data"));
  // One line for each, with what it is trained with below it.
  std::int64_t lines = 0;
  for (const auto& each : json) {
    lines += outcome.out.find("\n" + each["name"].get<std::string>() + " ") != std::string::npos;
  }
  EXPECT_EQ(lines, std::ssize(json));
  EXPECT_THAT(outcome.out, HasSubstr("\n            --hidden 100\n"));
  EXPECT_THAT(outcome.out, HasSubstr("Running statistics (of BatchNorm) are not counted"));
  const auto im2txt =
      std::ranges::find_if(json, [](const auto& each) { return each["name"] == "im2txt"; });
  ASSERT_NE(im2txt, json.end());
  EXPECT_EQ((*im2txt)["schedule"], "step:146590:0.5");
  EXPECT_EQ((*im2txt)["clip_norm"], 5);
  EXPECT_EQ((*lm)["schedule"], "constant");
  EXPECT_THAT(
      outcome.out,
      HasSubstr("\n            --lr-schedule step:146590:0.5 --clip-norm 5 --input 299x299"));
}

// Contract: that nothing is evaluated is told, and why.
TEST_F(TrainingCommandsTest, SaysThatThereIsNoTestPart) {
  writeText("few", "1 1:1\n-1 2:1\n");
  const std::string train = "train lr --data libsvm:few --steps 1 --batch 2";
  for (const char* way : {" --np 1", " --np 2"}) {
    const Outcome outcome = colla(train + way);
    EXPECT_EQ(outcome.exitCode, 0) << outcome.error;
    const std::string_view line = "there is no test part: few: fewer than five samples";
    const std::size_t first = outcome.error.find(line);
    EXPECT_NE(first, std::string::npos) << outcome.error;
    EXPECT_EQ(outcome.error.find(line, first + 1), std::string::npos) << outcome.error;
  }
  EXPECT_THAT(colla(train + " --no-eval").error, Not(HasSubstr("no test part")));
}

// What is not of two classes has no other model where it is sparse, so none is advised.
TEST_F(TrainingCommandsTest, NamesTheLabelsOfSparseData) {
  writeText("many", "1 1:1\n-1 2:1\n7 1:2\n");
  const Outcome outcome = colla("train lr --data libsvm:many");
  EXPECT_EQ(outcome.exitCode, 2);
  EXPECT_THAT(outcome.error,
              AllOf(HasSubstr("but the data has 3 (-1, 1, 7)"), Not(HasSubstr("softmax"))));
}

// Contract: a frozen network of random weights is told once, and nothing else is.
TEST_F(TrainingCommandsTest, WarnsOfAnInceptionThatLearnsNothing) {
  const std::string train =
      "train im2txt --data synthetic:captions:4 --input 75x75 --units 4 --embedding 4 --steps 1 "
      "--batch 2 --no-eval --log warn";
  const Outcome outcome = colla(train + " --np 2");
  EXPECT_EQ(outcome.exitCode, 0) << outcome.error;
  EXPECT_THAT(outcome.error, HasSubstr("Inception begins with random weights and keeps them"));
  EXPECT_EQ(std::ranges::count(outcome.error, '\n'), 1) << outcome.error;
  EXPECT_THAT(colla(train + " --train-inception true").error, IsEmpty());
}

// Contract: --help of a model says what that model is trained with.
TEST_F(TrainingCommandsTest, HelpOfAModelShowsItsDefaults) {
  const auto json = nlohmann::json::parse(colla("models --json").out, nullptr, false);
  const std::string help = colla("help train im2txt").out;
  EXPECT_EQ(help, colla("train im2txt --help").out);
  for (const auto& model : json) {
    if (model["name"] != "im2txt") continue;
    const std::string optimizer = model["optimizer"];
    EXPECT_TRUE(std::regex_search(
        help, std::regex("--batch,--batch-size N +samples per step over all workers \\(" +
                         std::to_string(model["batch"].get<int>()) + "\\)\n")))
        << help;
    EXPECT_THAT(help, HasSubstr("adam, adamw (" + optimizer.substr(0, optimizer.find(' ')) + ")"));
  }
  EXPECT_TRUE(std::regex_search(help, std::regex("--lr,--learning-rate NUMBER +learning rate "
                                                 "\\([0-9.e-]+\\)\n")))
      << help;
}

// Contract: a checkpoint has the same names in every command.
TEST_F(TrainingCommandsTest, CheckpointsAreNamedAlike) {
  ASSERT_EQ(
      colla("train softmax --data synthetic:mnist:60 --steps 2 --save-every 1 --checkpoint run")
          .exitCode,
      0);
  std::string first;
  for (const char* const way :
       {"run@1", "--checkpoint-dir run@1", "--run-dir run@1", "--checkpoint run@1"}) {
    const Outcome outcome =
        colla(std::string("eval softmax ") + way + " --data synthetic:mnist:60 --json");
    EXPECT_EQ(outcome.exitCode, 0) << outcome.error;
    if (first.empty()) first = outcome.out;
    EXPECT_EQ(outcome.out, first) << way;
    EXPECT_EQ(nlohmann::json::parse(outcome.out, nullptr, false)["step"], 1) << outcome.out;
  }
  const Outcome resumed = colla(
      "train softmax --data synthetic:mnist:60 --steps 3 --checkpoint-dir run@1 --resume --json");
  EXPECT_EQ(resumed.exitCode, 0) << resumed.error;
  EXPECT_THAT(resumed.error, HasSubstr("resuming from step 1"));
  // Nothing but objects, one for each step and the total.
  EXPECT_EQ(std::ranges::count(resumed.out, '\n'), 3) << resumed.out;
  EXPECT_TRUE(resumed.out.starts_with("{\"step\":2,")) << resumed.out;
}

TEST_F(TrainingCommandsTest, HelpHasExamples) {
  for (const char* command :
       {"train", "train mlp", "eval", "models", "demo", "predict", "export"}) {
    const Outcome outcome = colla(std::string(command) + " --help");
    EXPECT_EQ(outcome.exitCode, 0) << command;
    EXPECT_THAT(outcome.out, HasSubstr("Example")) << command;
    EXPECT_THAT(outcome.error, IsEmpty()) << command;
  }
}

// What people look for comes first: the model, how it is trained, and last what they seldom need.
TEST_F(TrainingCommandsTest, HelpOfTrainingBeginsWithTraining) {
  const std::string help = colla("train mlp --help").out;
  std::size_t last = 0;
  for (const char* text : {"--data", "--hidden", "--strategy", "--lr", "--checkpoint-dir",
                           "--transport", "Examples:"}) {
    const std::size_t at = help.find(std::string("  ") + text);
    const std::size_t found = at != std::string::npos ? at : help.find(text);
    ASSERT_NE(found, std::string::npos) << text;
    EXPECT_LT(last, found) << text;
    last = found;
  }
}

// A build without libtorch has no colla-train beside colla.
TEST_F(TrainingCommandsTest, WithoutLibtorch) {
  std::filesystem::copy_file(COLLA_BINARY, path("colla"));
  for (const char* arguments : {"train mlp", "eval mlp", "models", "demo"}) {
    const Outcome outcome = runColla(scratch_.path(), arguments, "./colla");
    EXPECT_EQ(outcome.exitCode, 1) << arguments;
    EXPECT_THAT(outcome.error, HasSubstr("not in this build: there is no ")) << arguments;
    EXPECT_EQ(std::ranges::count(outcome.error, '\n'), 1) << outcome.error;
  }
  EXPECT_EQ(runColla(scratch_.path(), "version", "./colla").exitCode, 0);
}

class DemoTest : public TrainingCommandsTest {
 protected:
  void SetUp() override {
    TrainingCommandsTest::SetUp();
    std::filesystem::create_directory(path("tmp"));
    setenv("TMPDIR", path("tmp").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("TMPDIR");
    TrainingCommandsTest::TearDown();
  }
  bool nothingLeft() const { return std::filesystem::is_empty(path("tmp")); }
};

TEST_F(DemoTest, ProvesTheBitsEqual) {
  const Outcome outcome = colla("demo --model softmax --data synthetic:mnist:300 --epochs 1");
  EXPECT_EQ(outcome.exitCode, 0) << outcome.error;
  EXPECT_TRUE(matches(
      outcome.out,
      "[^]*\nstrategy +workers +seconds +samples/s +accuracy .*\n"
      "single +1 +[0-9.]+ +[0-9]+ +[0-9.]+ .*\n"
      "mirrored +2 +[0-9.]+ +[0-9]+ +[0-9.]+ +equal, every bit\n"
      "allreduce +2 +[0-9.]+ +[0-9]+ +[0-9.]+ +equal, every bit\n"
      "ps-sync +2 +[0-9.]+ +[0-9]+ +[0-9.]+ +equal, every bit\n"
      "ps-ssp +2 +[0-9.]+ +[0-9]+ +[0-9.]+ +equal, every bit\n"
      "ps-async +2 +[0-9.]+ +[0-9]+ +[0-9.]+ +different: it applies gradients as they come\n"
      "local-sgd +2 +[0-9.]+ +[0-9]+ +[0-9.]+ +different: it averages parameters, not gradients\n"
      "\nequal: every strategy that promises it gave the same bits\n"))
      << outcome.out;
  EXPECT_THAT(outcome.error, IsEmpty());
  EXPECT_TRUE(nothingLeft());
}

TEST_F(DemoTest, FailsAsTheTrainingFails) {
  const Outcome outcome = colla("demo --model nothing");
  EXPECT_EQ(outcome.exitCode, 2);
  EXPECT_THAT(outcome.error, HasSubstr("there is no model \"nothing\""));
  EXPECT_TRUE(nothingLeft());
}

// Contract: Ctrl-C on the terminal, and a signal to the command alone, leave nothing.
TEST_F(DemoTest, InterruptLeavesNothing) {
  for (const bool terminal : {true, false}) {
    launch::CollaProcess::Options options;
    options.terminal = terminal;
    launch::CollaProcess demo({"demo", "--data", "synthetic:mnist:600", "--epochs", "1000000"},
                              options);
    ASSERT_TRUE(demo.says("Epoch 2/")) << demo.out() << demo.err();
    if (terminal) {
      demo.type("\x03");
    } else {
      kill(demo.pid(), SIGTERM);
    }
    EXPECT_EQ(demo.wait(), 128 + (terminal ? SIGINT : SIGTERM)) << demo.err();
    EXPECT_TRUE(launch::eventually([&] { return demo.gone(); }));
    EXPECT_TRUE(launch::eventually([&] { return nothingLeft(); }));
  }
}

}  // namespace
}  // namespace colla::cli
