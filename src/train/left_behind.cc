#include "train/left_behind.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/directory.h"
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

// The same command, which goes on from the newest checkpoint.
std::string resuming(const std::vector<std::string>& command) {
  std::string text;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (word == "--resume" || word.starts_with("--resume=")) {
      const std::string next =
          word == "--resume" && i + 1 < command.size() ? command[i + 1] : std::string();
      const bool step =
          !next.empty() && std::ranges::all_of(next, [](char c) { return c >= '0' && c <= '9'; });
      if (step || next == "auto") ++i;
      continue;
    }
    text += quoted(word) + " ";
  }
  return text + "--resume";
}

}  // namespace

std::string leftBehind(const std::string& directory, const std::vector<std::string>& command,
                       std::string_view how) {
  if (directory.empty()) return "nothing is saved: --checkpoint-dir DIR keeps checkpoints";
  const auto newest = checkpoint::Directory(checkpointsOf(directory)).newest();
  if (!newest.ok()) return fmt::format("nothing is saved: {}", newest.status().message());
  return fmt::format("step {} is saved in {}; go on with{}: {}", *newest, directory, how,
                     resuming(command));
}

}  // namespace colla::train
