// The process that kill_test.cc kills: kill_probe DIRECTORY next|same|aside saves forever, "next" a
// new step each time and keeping three, "same" step 7 again and again, "aside" a new step each time
// and, whenever there are three, setting them aside. Says "ready", then "begin N" and "saved N" for
// each, N being what the tensors hold.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
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

// What the newest one holds, also of those that are set aside; 0 if there is none.
std::int64_t lastIn(const std::string& path) {
  const auto loaded = Directory(path).loadNewest();
  std::int64_t last = loaded.ok() ? std::stoll(loaded->manifest().extra.at("count")) : 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("set-aside-")) last = std::max(last, lastIn(entry.path()));
  }
  return last;
}

Status cleanUp(Directory& directory, const std::string& mode, std::int64_t step) {
  if (mode == "next") return directory.prune(3, step);
  if (mode != "aside" || directory.list()->size() < 3) return {};
  return directory.setAside(0).status();
}

int saveForever(const std::string& path, const std::string& mode) {
  std::filesystem::create_directories(path);
  Directory directory(path);
  std::vector<std::int64_t> values(kElements);
  say("ready\n");
  for (std::int64_t count = lastIn(path) + 1;; ++count) {
    std::fill(values.begin(), values.end(), count);
    const TensorView view{
        "values", DataType::kInt64, {kElements}, std::as_bytes(std::span(values))};
    Manifest manifest;
    manifest.step = mode == "same" ? 7 : count;
    manifest.extra["count"] = std::to_string(count);
    say("begin " + std::to_string(count) + "\n");
    const auto saved = directory.save(manifest, {{&view, 1}, {}, {&view, 1}});
    Status status = saved.status();
    if (status.ok()) say("saved " + std::to_string(count) + "\n");
    if (status.ok()) status = cleanUp(directory, mode, manifest.step);
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
  return colla::checkpoint::saveForever(argv[1], argv[2]);
}
