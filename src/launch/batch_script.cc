#include "launch/batch_script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <regex>

#include "base/invalid.h"

namespace colla::launch {
namespace {

using Words = std::vector<std::string>;

// Commands of colla that run once, whatever the number of tasks.
constexpr std::array<std::string_view, 10> kOnce = {"compare",  "data",    "demo",   "eval",
                                                    "export",   "inspect", "models", "predict",
                                                    "settings", "version"};

bool isTraining(const Words& words) { return !words.empty() && words.front() == "train"; }
bool runsOnce(const Words& words) { return std::ranges::find(kOnce, words.front()) != kOnce.end(); }

// Slurm looks at time limits once a minute, so its signal may come as much earlier.
constexpr long kLeastLimit = 180;
constexpr long kNoLimit = std::numeric_limits<long>::max();

// As sbatch reads a time limit; nothing if it can't.
std::optional<long> secondsOf(const std::string& time) {
  if (time.empty()) return kNoLimit;
  static const std::regex pattern(R"((?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?)");
  std::smatch parts;
  if (!std::regex_match(time, parts, pattern)) return std::nullopt;
  const auto number = [&](std::size_t i) { return parts[i].matched ? std::stol(parts[i]) : 0; };
  // With days the first number is hours; without, it is minutes unless there are three numbers.
  const bool hours = parts[1].matched || parts[4].matched;
  const long seconds =
      hours ? number(2) * 3600 + number(3) * 60 + number(4) : number(2) * 60 + number(3);
  const long all = number(1) * 86400 + seconds;
  return all == 0 ? kNoLimit : all;
}

// How long before its limit a training is told to save.
long warningOf(const BatchScript& script) {
  return std::clamp(secondsOf(script.time).value_or(kNoLimit) / 6, 30L, 120L);
}

std::string quoted(const std::string& word) {
  static const std::regex plain("[A-Za-z0-9_@%+=:,./-]+");
  if (std::regex_match(word, plain)) return word;
  return "'" + std::regex_replace(word, std::regex("'"), "'\\''") + "'";
}

std::string quoted(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + quoted(word);
  return line;
}

bool hasFlag(const Words& words, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    const std::string_view flag = std::string_view(word).substr(0, word.find('='));
    return std::ranges::find(names, flag) != names.end();
  });
}

Status checkTraining(const BatchScript& script, const Words& words) {
  if (words.size() < 2 || words[1].starts_with('-')) {
    return invalid("train needs a model: `colla models` lists them");
  }
  if (hasFlag(words, {"--np", "-np", "-n"})) {
    return invalid("leave out train's --np: it gets {} workers, --nodes times --ntasks-per-node",
                   script.nodes * script.tasksPerNode);
  }
  if (hasFlag(words, {"--ps", "--ps-hosts", "--worker-hosts"})) {
    return invalid("srun starts no parameter servers: use a strategy without them");
  }
  return {};
}

Status check(const BatchScript& script) {
  if (script.nodes < 1 || script.tasksPerNode < 1 || script.cpusPerTask < 0) {
    return invalid("--nodes, --ntasks-per-node and --cpus-per-task take numbers, 1 or more");
  }
  // A line break would begin a line of its own in the file.
  const auto broken = [](const std::string& text) { return text.find('\n') != std::string::npos; };
  for (const std::string* value :
       {&script.jobName, &script.time, &script.output, &script.error, &script.chdir, &script.gres,
        &script.partition, &script.account}) {
    if (broken(*value)) return invalid("\"{}\" has a line break", *value);
  }
  for (const Words& list : {script.others, script.modules}) {
    for (const std::string& value : list) {
      if (broken(value)) return invalid("\"{}\" has a line break", value);
    }
  }
  const auto limit = secondsOf(script.time);
  if (!limit) {
    return invalid(
        "--time is \"{}\", but takes MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS or "
        "DAYS-HOURS:MINUTES:SECONDS",
        script.time);
  }
  if (std::ranges::any_of(script.commands, isTraining) && *limit < kLeastLimit) {
    return invalid(
        "--time is \"{}\", but a training needs at least {} minutes: Slurm tells it up to a minute "
        "and a half before the limit to save, and it would be requeued without a step",
        script.time, kLeastLimit / 60);
  }
  for (const std::string& flag : script.others) {
    if (!flag.starts_with("-")) {
      return invalid("--sbatch takes a flag of sbatch, such as --sbatch=--mem=8G, not \"{}\"",
                     flag);
    }
  }
  if (script.commands.empty()) {
    return invalid("nothing to run: give a command after --, such as -- train mlp --epochs 3");
  }
  for (const Words& words : script.commands) {
    if (words.empty()) return invalid("there is no command before or after a --then");
    if (isTraining(words)) COLLA_TRY(checkTraining(script, words));
  }
  return {};
}

// The lines that Slurm reads.
std::string directives(const BatchScript& script, bool resumes) {
  std::string text;
  const auto add = [&](std::string_view flag, const std::string& value) {
    // Slurm splits these lines at spaces, as a shell would.
    if (!value.empty()) text += fmt::format("#SBATCH --{}={}\n", flag, quoted(value));
  };
  add("job-name", script.jobName);
  add("nodes", std::to_string(script.nodes));
  add("ntasks-per-node", std::to_string(script.tasksPerNode));
  if (script.cpusPerTask > 0) add("cpus-per-task", std::to_string(script.cpusPerTask));
  add("gres", script.gres);
  add("time", script.time);
  add("partition", script.partition);
  add("account", script.account);
  add("chdir", script.chdir);
  add("output", script.output);
  add("error", script.error);
  for (const std::string& flag : script.others) text += fmt::format("#SBATCH {}\n", flag);
  if (!resumes) return text;
  return text + fmt::format(
                    "#SBATCH --requeue\n"
                    "#SBATCH --open-mode=append\n"
                    "#SBATCH --signal=B:USR1@{}\n",
                    warningOf(script));
}

// What a shell needs to start tasks and to end them in time.
constexpr std::string_view kRun = R"(
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
)";
constexpr std::string_view kRequeue = R"(
# {} seconds before the time limit this shell gets SIGUSR1, and passes it on: a training saves and
# ends, and the job goes back into the queue. There, as after any other requeue, it resumes. Slurm
# ends a job that it takes back with SIGTERM, on which a training saves as well.
again=no step=
trap 'again=yes; [[ -z $step ]] || kill -USR1 "$step" || true' USR1
trap : TERM
)";

// `train` saves where the same job finds it again, often enough, and goes on from there.
std::string trainingLine(const BatchScript& script, const Words& words, std::size_t number) {
  std::string line = fmt::format("run {} {}", quoted(script.colla), quoted(words));
  if (!hasFlag(words, {"--checkpoint-dir", "--run-dir", "--checkpoint"})) {
    line += fmt::format(" \\\n  --checkpoint-dir \"runs/$SLURM_JOB_NAME-$SLURM_JOB_ID{}\"",
                        script.commands.size() > 1 ? fmt::format("-{}", number + 1) : "");
  }
  if (!hasFlag(words, {"--save-every", "--save-seconds"})) line += " --save-seconds 600";
  if (!hasFlag(words, {"--resume"})) line += " --resume auto";
  return line;
}

}  // namespace

std::string defaultJobName(const std::vector<std::string>& command) {
  if (command.empty()) return "colla";
  const std::string word = isTraining(command) && command.size() > 1 ? command[1] : command.front();
  return word.substr(word.rfind('/') + 1);
}

Result<std::string> toText(const BatchScript& script) {
  COLLA_TRY(check(script));
  // Of programs nobody knows whether they resume: they run once.
  const bool resumes = std::ranges::any_of(script.commands, isTraining);
  const bool tasks = !std::ranges::all_of(script.commands, runsOnce);
  std::string text = "#!/bin/bash\n" + directives(script, resumes);
  text += fmt::format("\n{}. Submit it with: sbatch FILE\nset -euo pipefail\n", kBatchScriptMark);
  if (!script.modules.empty()) text += "\n";
  for (const std::string& module : script.modules) {
    text += fmt::format("module load {}\n", quoted(module));
  }
  if (script.cpusPerTask > 0) {
    text +=
        "\n# srun does not take it from sbatch.\n"
        "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\n";
  }
  if (resumes) {
    text += std::regex_replace(std::string(kRequeue), std::regex(R"(\{\})"),
                               std::to_string(warningOf(script)));
  } else if (tasks) {
    text += "\nagain=no\n";
  }
  if (tasks) text += kRun;
  text += "\n";
  for (std::size_t i = 0; i < script.commands.size(); ++i) {
    const Words& words = script.commands[i];
    if (isTraining(words)) {
      text += trainingLine(script, words, i) + "\n";
    } else if (runsOnce(words)) {
      text += fmt::format("{}{} {}\n", tasks ? "once " : "", quoted(script.colla), quoted(words));
    } else {
      text += fmt::format("run {}\n", quoted(words));
    }
  }
  return text;
}

}  // namespace colla::launch
