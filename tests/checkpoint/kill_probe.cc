// The process that kill_test.cc kills: kill_probe DIRECTORY next|same saves forever, "next" a new
// step each time and keeping three, "same" step 7 again and again. Says "ready", then "begin N" and
// "saved N" for each, N being what the tensors hold.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "checkpoint/directory.h"

namespace colla::checkpoint {
namespace {

constexpr std::size_t kElements = 20000;

void say(const std::string& line) {
  // One write: a line is there or it is not.
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) _exit(3);
}

// What the newest one holds; 0 if there is none.
std::int64_t lastIn(const Directory& directory) {
  const auto loaded = directory.loadNewest();
  return loaded.ok() ? std::stoll(loaded->manifest().extra.at("count")) : 0;
}

int saveForever(const std::string& path, bool same) {
  Directory directory(path);
  std::vector<std::int64_t> values(kElements);
  say("ready\n");
  for (std::int64_t count = lastIn(directory) + 1;; ++count) {
    std::fill(values.begin(), values.end(), count);
    const TensorView view{
        "values", DataType::kInt64, {kElements}, std::as_bytes(std::span(values))};
    Manifest manifest;
    manifest.step = same ? 7 : count;
    manifest.extra["count"] = std::to_string(count);
    say("begin " + std::to_string(count) + "\n");
    const auto saved = directory.save(manifest, {{&view, 1}, {}, {&view, 1}});
    Status status = saved.status();
    if (status.ok()) say("saved " + std::to_string(count) + "\n");
    if (status.ok() && !same) status = directory.prune(3, manifest.step);
    if (!status.ok()) {
      say("failed: " + toString(status) + "\n");
      return 1;
    }
  }
}

}  // namespace
}  // namespace colla::checkpoint

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  return colla::checkpoint::saveForever(argv[1], std::string(argv[2]) == "same");
}
