#include "train/runs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "checkpoint/compare.h"
#include "checkpoint/directory.h"

namespace colla::train {

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

launch::CollaProcess::Options programOptions() {
  launch::CollaProcess::Options options;
  options.program = COLLA_TRAIN_PROGRAM;
  return options;
}

Ended runProgram(const Words& words) { return launch::runToEnd(words, programOptions()); }

Words smallRun(const std::string& model, const std::string& directory, const Words& more) {
  return joined({model, "--threads", "1", "--slices", "4", "--batch", "50", "--quiet",
                 "--checkpoint-dir", directory},
                more);
}

std::vector<std::int64_t> stepsIn(const std::string& directory) {
  const auto steps = checkpoint::Directory(directory + "/checkpoints").list();
  EXPECT_TRUE(steps.ok()) << steps.status();
  return steps.ok() ? *steps : std::vector<std::int64_t>();
}

std::string differencesAt(const std::string& a, const std::string& b, std::int64_t step) {
  return differences(fmt::format("{}@{}", a, step), fmt::format("{}@{}", b, step));
}

std::string differences(const std::string& a, const std::string& b) {
  const auto left = checkpoint::Source::open(a);
  const auto right = checkpoint::Source::open(b);
  if (!left.ok() || !right.ok()) {
    return fmt::format("{} {}", left.status().message(), right.status().message());
  }
  std::string text;
  for (const auto& tensor : compare(*left, *right).tensors) {
    if (!tensor.equal()) {
      text += fmt::format("{} and {}: {} {}\n", a, b, tensor.name, toString(tensor.outcome));
    }
  }
  return text;
}

}  // namespace colla::train
