#include "bench/benchmark.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/command_line.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

int failure(const Status& status) {
  fmt::print(stderr, "colla bench: {}\n", status.message());
  return 1;
}

}  // namespace

void addRunFlags(CLI::App& app, CommonOptions& options) {
  app.add_option("--rounds", options.rounds,
                 "Measurements of each system at each point; medians are reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "What one measurement should take")
      ->check(CLI::Range(0.001, 60.0))
      ->capture_default_str();
  addJsonFlag(app, options.jsonFile, "the results as JSON");
}

void addPeers(CLI::App& app, CommonOptions& options, const std::string& what) {
  std::vector<std::string> choices = options.peers;
  choices.emplace_back("none");
  app.add_option_function<std::vector<std::string>>(
         "--peers",
         [&options](const std::vector<std::string>& words) {
           options.peers = distinct(words);
           std::erase(options.peers, "none");
           options.peersRequired = true;
         },
         what + "; without this option what is missing is left out")
      ->delimiter(',')
      ->check(CLI::IsMember(choices))
      ->default_str(fmt::format("{}", fmt::join(options.peers, ",")));
}

void throwIfBad(const Status& status) {
  if (!status.ok()) throw CLI::ValidationError(std::string(status.message()));
}

std::string programBeside(const std::string& name) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / name;
}

Status checkTorchProgram(const std::string& program, const std::string& instead) {
  if (access(program.c_str(), X_OK) == 0) return {};
  return {StatusCode::kUnsupported,
          fmt::format("there is no {}: this colla was built without libtorch (COLLA_TORCH=OFF){}",
                      program, instead)};
}

void ProgressLine::show(const std::string& line) {
  if (!watched_) return;
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::clear() {
  if (std::exchange(shown_, false)) std::fputs("\r\033[K", stderr);
}

void ProgressLine::tell(const std::string& line) {
  clear();
  fmt::print(stderr, "colla bench: {}\n", line);
}

Status Bench::start(const SystemSpec& spec) {
  progress_.show("start " + spec.name);
  // A busy machine takes minutes to import the peers.
  return coordinator_.start(spec, Deadline::after(300s));
}

Result<bool> Bench::startPeer(const std::string& peer,
                              const std::function<Result<SystemSpec>()>& makeSpec) {
  const auto spec = makeSpec();
  const Status status = spec.ok() ? start(*spec) : spec.status();
  if (status.ok()) return true;
  if (common_.peersRequired || coordinator_.signal() != 0) return status.withContext(peer);
  progress_.tell(fmt::format("{} is left out: {}", peer, status.message()));
  return false;
}

RunnerOptions Bench::runnerOptions(const std::string& title) {
  RunnerOptions options;
  options.title = title;
  options.rounds = common_.rounds;
  options.seconds = common_.seconds;
  options.progress = [this](const std::string& line) { progress_.show(line); };
  return options;
}

int runBenchmark(const std::string& jsonFile,
                 const std::function<Result<Findings>(Coordinator& coordinator)>& measure) {
  std::ofstream jsonOut;
  if (!jsonFile.empty() && jsonFile != "-") {  // Now, rather than after minutes of measuring.
    jsonOut.open(jsonFile, std::ios::app);
    if (!jsonOut) {
      return failure(
          {StatusCode::kIo, fmt::format("cannot write {}: {}", jsonFile, std::strerror(errno))});
    }
    jsonOut.close();
  }
  auto coordinator = Coordinator::create();
  if (!coordinator.ok()) return failure(coordinator.status());
  const auto findings = measure(**coordinator);
  if (!findings.ok()) {
    failure(findings.status());
    return (*coordinator)->signal() != 0 ? 128 + (*coordinator)->signal() : 1;
  }
  if (jsonFile != "-") fmt::print("{}", findings->table);
  const Status written = writeJson(jsonFile, json(findings->records));
  return written.ok() ? 0 : failure(written);
}

}  // namespace colla::bench
