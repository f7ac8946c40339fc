#include "launch/start_workers.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "job/cluster.h"
#include "launch/plan.h"
#include "launch/run.h"

namespace colla::launch {
namespace {

constexpr char kSelf[] = "/proc/self/exe";
// In the environment of the processes that a front has started.
constexpr char kFront[] = "COLLA_FRONT";

// By its name, which `ps` then shows, as long as that still means this program.
std::string pathOfSelf() {
  std::error_code error;
  const std::string path = std::filesystem::read_symlink(kSelf, error);
  struct stat named {};
  struct stat self {};
  const bool same = !error && stat(path.c_str(), &named) == 0 && stat(kSelf, &self) == 0 &&
                    named.st_dev == self.st_dev && named.st_ino == self.st_ino;
  return same ? path : kSelf;
}

// Only what is not there yet: other threads may be reading the environment.
void exportSettings(const Config& config) {
  for (const auto& [name, value] : settingVariables(config)) {
    const char* present = std::getenv(name.c_str());
    if (present == nullptr || value != present) setenv(name.c_str(), value.c_str(), 1);
  }
}

}  // namespace

bool startedByFront() { return std::getenv(kFront) != nullptr; }

Result<std::vector<std::string>> argumentsOfSelf() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string word; std::getline(file, word, '\0');) arguments.push_back(word);
  if (!arguments.empty()) return arguments;
  return {StatusCode::kIo, "cannot read this program's arguments from /proc/self/cmdline"};
}

std::ptrdiff_t threadsOfSelf() {
  std::error_code error;
  const std::filesystem::directory_iterator tasks("/proc/self/task", error);
  return error ? 1 : std::distance(begin(tasks), end(tasks));
}

Result<bool> becomesFront(const job::Place& place, const StartOptions& options) {
  if (options.workers < 0 || options.servers < 0) {
    return {StatusCode::kInvalidArgument,
            fmt::format("--np is {} and --ps is {}, but neither can be negative", options.workers,
                        options.servers)};
  }
  const bool lists = place.launcher == job::kLists;
  const bool launched = place.launcher == "colla" || lists || !place.alone();
  if (!launched) {
    return std::max(options.workers, 1) + options.servers > 1 || !options.where.hosts.empty();
  }
  const auto agree = [&](std::string_view flag, int wanted, int present,
                         std::string_view one) -> Status {
    if (wanted == 0 || wanted == present) return {};
    const std::string what = fmt::format("{} {}{}", present, one, present == 1 ? "" : "s");
    if (lists) {
      return {StatusCode::kInvalidArgument,
              fmt::format("{} is {}, but the lists of hosts name {}: leave {} out", flag, wanted,
                          what, flag)};
    }
    return {StatusCode::kInvalidArgument,
            fmt::format("{} is {}, but {} has started {}: leave {} out, or start this program "
                        "without a launcher",
                        flag, wanted, place.launcher, what, flag)};
  };
  COLLA_TRY(agree("--np", options.workers, place.size, "worker"));
  COLLA_TRY(agree("--ps", options.servers, place.servers, "server"));
  return false;
}

Result<std::optional<int>> startWorkers(const StartOptions& options) {
  exportSettings(options.config);
  COLLA_TRY_ASSIGN(const job::Place place,
                   job::readEnvironment([](const char* name) { return std::getenv(name); }));
  COLLA_TRY_ASSIGN(const bool front, becomesFront(place, options));
  if (!front) return std::optional<int>();
  if (const auto threads = threadsOfSelf(); threads > 1) {
    return {StatusCode::kUnsupported,
            fmt::format("this process has {} threads already and can't start workers: let it do so "
                        "before anything else in main(), or start it with `colla run`",
                        threads)};
  }
  RunOptions run = options.where;
  COLLA_TRY_ASSIGN(run.command, argumentsOfSelf());
  run.name = std::filesystem::path(run.command.front()).filename();
  run.program = pathOfSelf();
  run.workers = std::max(options.workers, 1);
  run.servers = options.servers;
  run.spareWorkers = options.spareWorkers;
  run.verbatim = true;
  run.patient = true;
  run.config = options.config;
  run.ownTorch = options.ownTorch;
  run.environment.emplace_back(kFront, run.name);
  std::fflush(nullptr);  // What was said before comes before what the workers say.
  return std::optional<int>(launch::run(run));
}

}  // namespace colla::launch
