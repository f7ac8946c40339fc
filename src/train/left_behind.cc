#include "train/left_behind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/command_line.h"
#include "checkpoint/directory.h"
#include "job/cluster.h"
#include "launch/start_workers.h"
#include "train/run_plan.h"

namespace colla::train {
namespace {

// For a shell.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// Flags of the run's directory, as train/flags.cc has them.
constexpr std::array<std::string_view, 3> kDirectoryFlags = {"--checkpoint-dir", "--run-dir",
                                                             "--checkpoint"};

bool isStep(const std::string& word) {
  return !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

// The same command, which goes on from the newest checkpoint: without the step that this run itself
// began at, be it --resume STEP or --checkpoint-dir DIR@STEP.
std::string resuming(const std::vector<std::string>& command, const std::string& directory) {
  std::string text;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const std::string& word = command[i];
    const std::string flag = normalized(word);
    const std::string name = flag.substr(0, flag.find('='));
    const bool valueFollows = name.size() == flag.size() && i + 1 < command.size();
    if (name == "--resume") {
      if (valueFollows && (isStep(command[i + 1]) || command[i + 1] == "auto")) ++i;
    } else if (std::ranges::find(kDirectoryFlags, name) == kDirectoryFlags.end()) {
      text += quoted(word) + " ";
    } else if (valueFollows) {
      text += quoted(word) + " " + quoted(directory) + " ";
      ++i;
    } else {
      text += quoted(word.substr(0, word.find('=') + 1) + directory) + " ";
    }
  }
  return text + "--resume";
}

}  // namespace

bool hasCheckpoint(const std::string& directory) {
  return !directory.empty() && checkpoint::Directory(checkpointsOf(directory)).newest().ok();
}

std::string wayOn(const std::string& directory, const job::Place& place) {
  std::string how;
  if (place.launcher == job::kLists) {
    how = ", and the other processes likewise";
  } else if (place.launcher != "none" && !launch::startedByFront()) {
    how = ", under the same launcher";
  }
  const auto command = launch::argumentsOfSelf();
  return fmt::format(" is saved in {}; go on with{}: {}", directory, how,
                     resuming(command.ok() ? *command : std::vector<std::string>(), directory));
}

std::string leftBehind(const std::string& directory, const job::Place& place) {
  if (directory.empty()) return "nothing is saved: --checkpoint-dir DIR keeps checkpoints";
  const auto newest = checkpoint::Directory(checkpointsOf(directory)).newest();
  if (!newest.ok()) return fmt::format("nothing is saved: {}", newest.status().message());
  return fmt::format("step {}{}", *newest, wayOn(directory, place));
}

}  // namespace colla::train
