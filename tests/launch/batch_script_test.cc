#include "launch/batch_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace colla::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

BatchScript sample() {
  BatchScript script;
  script.nodes = 2;
  script.tasksPerNode = 4;
  script.time = "25";
  script.jobName = "lr";
  script.output = "x_%j.out";
  script.colla = "/opt/colla/bin/colla";
  script.commands = {{"train", "lr", "--epochs", "3"}};
  return script;
}

TEST(BatchScript, IsReadable) {
  BatchScript script = sample();
  script.cpusPerTask = 2;
  script.gres = "gpu:2";
  script.modules = {"anaconda3", "cuda/11.0"};
  script.others = {"--mem=64G"};
  const auto text = toText(script);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, R"(#!/bin/bash
#SBATCH --job-name=lr
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
#SBATCH --gres=gpu:2
#SBATCH --time=25
#SBATCH --output=x_%j.out
#SBATCH --mem=64G
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120

# Written by `colla slurm`. Submit it with: sbatch FILE
set -euo pipefail

module load anaconda3
module load cuda/11.0

# srun does not take it from sbatch.
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK

# 120 seconds before the time limit this shell gets SIGUSR1, and passes it on: a training saves and
# ends, and the job goes back into the queue. There, as after any other requeue, it resumes. Slurm
# ends a job that it takes back with SIGTERM, on which a training saves as well.
again=no step=
trap 'again=yes; [[ -z $step ]] || kill -USR1 "$step" || true' USR1
trap : TERM

# Starts a process on every task (once: a single one), and waits for all of them. A failure ends this
# script.
run() { once srun --kill-on-bad-exit=1 "$@"; }
once() {
  [[ $again == no ]] || requeue
  "$@" &
  step=$!
  wait "$step" && code=0 || code=$?
  while ((code > 128)) && kill -0 "$step" 2>/dev/null; do  # A signal to this shell ends a wait.
    wait "$step" && code=0 || code=$?
  done
  step=
  [[ $again == no ]] || requeue
  ((code == 0)) || exit "$code"
}
requeue() {
  scontrol requeue "$SLURM_JOB_ID"
  exit
}

run /opt/colla/bin/colla train lr --epochs 3 \
  --checkpoint-dir "runs/$SLURM_JOB_NAME-$SLURM_JOB_ID" --save-seconds 600 --resume auto
)");
}

TEST(BatchScript, SeveralCommands) {
  BatchScript script = sample();
  script.commands = {{"train", "lr"},
                     {"train", "mlp", "--run-dir=runs/mlp", "--save-every", "10", "--resume"},
                     {"eval", "mlp", "runs/mlp"},
                     {"python", "train.py", "--title", "it's new"}};
  const auto text = toText(script);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("train lr \\\n  --checkpoint-dir "
                               "\"runs/$SLURM_JOB_NAME-$SLURM_JOB_ID-1\" --save-seconds 600"));
  EXPECT_THAT(*text, HasSubstr("colla train mlp --run-dir=runs/mlp --save-every 10 --resume\n"));
  EXPECT_THAT(*text, HasSubstr("\nonce /opt/colla/bin/colla eval mlp runs/mlp\n"));
  EXPECT_THAT(*text, HasSubstr("\nrun python train.py --title 'it'\\''s new'\n"));
}

// A training must get on between two signals, or it would be requeued for ever.
TEST(BatchScript, TrainingsAreToldToSaveInTime) {
  for (const auto& [time, signal] : std::map<std::string, std::string>{{"3", "@30"},
                                                                       {"6:00", "@60"},
                                                                       {"12", "@120"},
                                                                       {"1:00:00", "@120"},
                                                                       {"1-0", "@120"},
                                                                       {"0", "@120"},
                                                                       {"", "@120"}}) {
    BatchScript script = sample();
    script.time = time;
    const auto text = toText(script);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_THAT(*text, HasSubstr("#SBATCH --signal=B:USR1" + signal + "\n")) << time;
  }
  BatchScript program = sample();
  program.time = "1";
  program.commands = {{"./program"}};
  EXPECT_TRUE(toText(program).ok());  // Nobody requeues it.
}

// Of programs nobody knows whether they would go on or begin again.
TEST(BatchScript, ProgramsAreNotPutBackIntoTheQueue) {
  BatchScript script = sample();
  script.commands = {{"./program"}};
  const auto text = toText(script);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, Not(HasSubstr("--requeue")));
  EXPECT_THAT(*text, Not(HasSubstr("trap")));
}

TEST(BatchScript, WordsStayWords) {
  BatchScript script = sample();
  script.jobName = "my job";
  script.commands = {{"./a b", "$HOME", "`id`", "", "--x=1,2"}};
  const auto text = toText(script);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("#SBATCH --job-name='my job'\n"));
  EXPECT_THAT(*text, HasSubstr("run './a b' '$HOME' '`id`' '' --x=1,2\n"));
}

TEST(BatchScript, JobNames) {
  EXPECT_EQ(defaultJobName({"train", "lr"}), "lr");
  EXPECT_EQ(defaultJobName({"./bin/program", "x"}), "program");
}

struct Refusal {
  const char* name;
  void (*spoil)(BatchScript& script);
  const char* says;
};
class BatchScriptRefuses : public ::testing::TestWithParam<Refusal> {};

TEST_P(BatchScriptRefuses, InOneLine) {
  BatchScript script = sample();
  GetParam().spoil(script);
  const auto text = toText(script);
  EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(text.status().message()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    All, BatchScriptRefuses,
    ::testing::Values(
        Refusal{"Nodes", [](BatchScript& script) { script.nodes = 0; }, "--nodes, --ntasks"},
        Refusal{"Time", [](BatchScript& script) { script.time = "25m"; }, "--time is \"25m\""},
        Refusal{"ShortTime", [](BatchScript& script) { script.time = "2"; }, "at least 3 minutes"},
        Refusal{"ShortSeconds", [](BatchScript& script) { script.time = "1:59"; },
                "at least 3 minutes"},
        Refusal{"LineBreak", [](BatchScript& script) { script.output = "x\n#SBATCH --mem=1"; },
                "line break"},
        Refusal{"Module", [](BatchScript& script) { script.modules = {"a\nrm"}; }, "line break"},
        Refusal{"Other", [](BatchScript& script) { script.others = {"mem"}; },
                "--sbatch takes a flag"},
        Refusal{"NoCommand", [](BatchScript& script) { script.commands = {}; }, "nothing to run"},
        Refusal{"EmptyCommand", [](BatchScript& script) { script.commands.push_back({}); },
                "--then"},
        Refusal{"NoModel",
                [](BatchScript& script) {
                  script.commands = {{"train", "--np"}};
                },
                "needs a model"},
        Refusal{"Workers",
                [](BatchScript& script) {
                  script.commands[0].insert(script.commands[0].end(), "--np=4");
                },
                "leave out train's --np: it gets 8 workers"},
        Refusal{"Servers", [](BatchScript& script) { script.commands[0].push_back("--ps"); },
                "no parameter servers"}),
    [](const auto& refusal) { return std::string(refusal.param.name); });

}  // namespace
}  // namespace colla::launch
