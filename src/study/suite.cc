#include "study/suite.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/command_line.h"
#include "study/draw.h"
#include "study/progress.h"

namespace colla::study {
namespace {

namespace fs = std::filesystem;

constexpr char kCommand[] = "colla study";

std::string refusalOf(const std::string& directory, const std::string& name, bool resume) {
  std::error_code error;
  const std::string there = suiteIn(directory);
  if (resume) {
    if (there == name) return "";
    return fmt::format("{} holds no study {}: there is no {}/suite.json of it", directory, name,
                       directory);
  }
  if (!there.empty()) {
    return fmt::format(
        "{} holds another study: choose a different --out, or go on with that one: "
        "--resume",
        directory);
  }
  if (fs::exists(directory, error) && !fs::is_directory(directory, error)) {
    return fmt::format("--out is {}, which is a file and not a directory", directory);
  }
  if (fs::is_directory(directory, error) && !fs::is_empty(directory, error)) {
    return fmt::format("{} holds files that are not a study's: choose a different --out",
                       directory);
  }
  fs::create_directories(directory, error);
  if (error || access(directory.c_str(), W_OK) != 0) {
    return fmt::format("cannot write to --out {}: {}", directory,
                       error ? error.message() : std::string("it belongs to somebody else"));
  }
  return "";
}

bool saveParts(const std::string& directory, const std::string& name, const Request& request,
               const std::vector<SuitePart>& parts) {
  nlohmann::ordered_json json = {
      {"format", 1}, {"suite", name}, {"command", request.command}, {"parts", {}}};
  for (const SuitePart& part : parts) {
    json["parts"].push_back({{"name", part.name}, {"title", part.title}});
  }
  std::ofstream file(directory + "/suite.json", std::ios::trunc);
  file << json.dump(1) << '\n';
  file.close();
  return static_cast<bool>(file);
}

}  // namespace

std::string suiteIn(const std::string& directory) {
  std::ifstream file(directory + "/suite.json");
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json.value("suite", std::string()) : "";
}

int runSuite(const std::string& name, const Request& request, const std::vector<SuitePart>& parts) {
  const std::string refusal = refusalOf(request.out, name, request.resume);
  if (!refusal.empty()) return usageError(kCommand, refusal);
  if (!request.resume && !saveParts(request.out, name, request, parts)) {
    fmt::print(stderr, "{}: cannot write {}/suite.json\n", kCommand, request.out);
    return kExitFailure;
  }
  const double budget = request.budget.value_or(parts.front().options.budget);
  fmt::print("{}: {} studies, in {} at most\n", name, parts.size(), duration(budget * 60));
  const auto began = std::chrono::steady_clock::now();
  int worst = 0;
  bool any = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double passed =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() / 60;
    Request part = request;
    part.options = parts[i].options;
    part.out = fmt::format("{}/{}", request.out, parts[i].name);
    part.budget = std::max(0.1, (budget - passed) / static_cast<double>(parts.size() - i));
    part.options.budget = *part.budget;
    part.resume = request.resume && fs::exists(part.out + "/study.json");
    if (part.options.withoutPeers) part.options.peers.clear();
    fmt::print("\n{} of {}: {}\n", i + 1, parts.size(), parts[i].title);
    std::fflush(stdout);
    const int code = runStudy(part);
    if (code > kSignalled) {
      fmt::print(stderr, "{}: go on with all of it: {} --resume\n", kCommand, request.command);
      worst = code;
      break;
    }
    // What the user cannot have in the first part, no part has.
    if (code == kExitUsage && i == 0 && !request.resume) {
      std::error_code error;
      fs::remove(request.out + "/suite.json", error);
      fs::remove(request.out, error);
      return code;
    }
    if (code != 0) worst = kExitFailure;
    any = any || code == 0;
  }
  const auto drawer = Drawer::find();
  if (!drawer.ok()) {
    fmt::print(stderr, "{}: {}; report.html is not written\n", kCommand, drawer.status().message());
    return worst;
  }
  if (any && drawer->run({"report", "--", request.out}) == 0) {
    fmt::print("\n{}/report.html\n", request.out);
  }
  return worst;
}

}  // namespace colla::study
