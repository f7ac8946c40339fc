#include "study/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/invalid.h"
#include "checkpoint/directory.h"

namespace colla::study {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLogHeader = "step\tstart\tend\tloss\taccuracy";

void readLastLine(FoundRun& run) {
  std::ifstream file(run.path + "/log.txt", std::ios::binary);
  std::string line;
  if (!std::getline(file, line) || line != kLogHeader) {
    run.problem = "log.txt is not the log of a run";
    return;
  }
  long number = 1;
  while (std::getline(file, line)) {
    ++number;
    if (file.eof()) break;  // A crash cut it.
    long long step = 0;
    double loss = 0;
    double accuracy = 0;
    if (std::sscanf(line.c_str(), "%lld\t%*f\t%*f\t%lf\t%lf", &step, &loss, &accuracy) != 3) {
      run.problem = fmt::format("line {} of log.txt is broken", number);
      return;
    }
    run.steps = step;
    run.loss = loss;
    run.accuracy = accuracy;
  }
}

void readManifest(FoundRun& run) {
  const std::string place = run.path + "/checkpoints";
  std::error_code error;
  if (!fs::is_directory(place, error)) return;
  const auto newest = checkpoint::Directory(place).newest();
  if (!newest.ok()) return;  // None yet.
  std::ifstream file(fmt::format("{}/step-{:08}/manifest.json", place, *newest));
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    run.problem = fmt::format("the manifest of step {} is broken", *newest);
    return;
  }
  run.model = json.value("model", std::string());
  run.strategy = json.value("strategy", std::string());
  run.workers = json.value("workers", 0);
  run.time = json.value("time", std::string());
}

}  // namespace

Result<std::vector<FoundRun>> findRuns(const std::string& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) return invalid("there is no directory {}", directory);
  std::vector<FoundRun> runs;
  const auto add = [&](const fs::path& log) {
    FoundRun& run = runs.emplace_back();
    run.path = log.parent_path();
    readLastLine(run);
    if (run.problem.empty()) readManifest(run);
  };
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator each(directory, options, error), end; !error && each != end;
       each.increment(error)) {
    std::error_code ignored;
    if (each->path().filename() == "checkpoints") each.disable_recursion_pending();
    if (each->path().filename() == "log.txt" && each->is_regular_file(ignored)) add(each->path());
  }
  if (runs.empty()) {
    return invalid("{} holds no run: there is no log.txt in it or below it", directory);
  }
  std::ranges::sort(runs, {}, &FoundRun::path);
  return runs;
}

}  // namespace colla::study
