#include "bench/hybrid_job.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "rendezvous/secret.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kRunLimit = 1h;
// Namespaces of our own: every port is free.
constexpr int kWorkerPort = 7000;
constexpr int kServerPort = 7001;

// Links' counters when a worker told of a step.
struct Sample {
  std::int64_t step = 0;
  std::vector<LinkBytes> links;
};

// Watches a run's processes, one per host in the order of the hosts (and perhaps more behind them).
class LinkWatch {
 public:
  LinkWatch(int hosts, std::int64_t steps) : hosts_(hosts), steps_(steps) {}

  void look(const std::list<Process>& processes) {
    const std::int64_t step = lastStepIn(processes.front().output());
    if (step == 0 || (!samples_.empty() && samples_.back().step == step)) return;
    Sample sample{step, {}};
    auto process = processes.begin();
    for (int host = 0; host < hosts_; ++host, ++process) {
      const auto bytes = LimitedHosts::linkBytes(process->pid());
      if (!bytes.ok()) return;  // It is about to end.
      sample.links.push_back(*bytes);
    }
    samples_.push_back(std::move(sample));
  }

  // Over the steps between the first that was told of and the last but one: then come checkpoints,
  // and what servers hold.
  std::optional<std::vector<LinkLoad>> loads() const {
    const Sample* last = nullptr;
    for (const Sample& sample : samples_) {
      if (sample.step < steps_) last = &sample;
    }
    if (last == nullptr || last->step == samples_.front().step) return {};
    const Sample& first = samples_.front();
    const auto steps = static_cast<double>(last->step - first.step);
    std::vector<LinkLoad> loads;
    for (std::size_t i = 0; i < first.links.size(); ++i) {
      loads.push_back(
          {static_cast<double>(last->links[i].sent - first.links[i].sent) / steps,
           static_cast<double>(last->links[i].received - first.links[i].received) / steps});
    }
    return loads;
  }

 private:
  const int hosts_;
  const std::int64_t steps_;
  std::vector<Sample> samples_;
};

}  // namespace

std::vector<HybridSystem> hybridSystems() {
  const std::vector<std::string> hybrid = {"--strategy", "hybrid"};
  const std::vector<std::string> psSync = {"--strategy", "ps-sync"};
  return {{"hybrid", hybrid, true, false},
          {"ps-sync", psSync, true, false},
          {"allreduce-dense", {"--strategy", "allreduce", "--sparse-as-dense"}, false, false},
          {"allreduce-rows", {"--strategy", "allreduce"}, false, false},
          {"hybrid-shared", hybrid, true, true},
          {"ps-sync-shared", psSync, true, true}};
}

Result<std::vector<ProcessSpec>> HybridJob::processes(const HybridSystem& system,
                                                      const Training& training) const {
  COLLA_TRY_ASSIGN(
      const std::string secret,
      coordinator_.scratch().write("secret", rendezvous::secretToHex(rendezvous::makeSecret())));
  std::filesystem::permissions(
      secret, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);

  std::vector<std::string> workers;
  for (int rank = 0; rank < model_.workers; ++rank) {
    workers.push_back(fmt::format("{}:{}", LimitedHosts::address(rank), kWorkerPort));
  }
  const int serverHost = system.shared ? 0 : model_.workers;
  const std::int64_t words = (training.steps + 1) * model_.batch * model_.length;
  std::vector<std::string> program = {
      program_,
      "train",
      "lm",  //
      "--data",
      fmt::format("synthetic:text:{}x{}", words, model_.vocabulary),  //
      "--embedding",
      fmt::format("{}", model_.width),  //
      "--projection",
      fmt::format("{}", model_.width),  //
      "--units",
      fmt::format("{}", model_.units),  //
      "--candidates",
      fmt::format("{}", model_.candidates),  //
      "--length",
      fmt::format("{}", model_.length),  //
      "--batch",
      fmt::format("{}", model_.batch),  //
      "--steps",
      fmt::format("{}", training.steps),  //
      "--dropout",
      "0",
      "--clip-norm",
      "0",
      "--optimizer",
      "sgd",
      "--lr",
      "0.1",  //
      "--eval-every",
      "1",
      "--no-eval",  // A line for every step.
      "--transport",
      model_.transport,
      "--threads",
      "1",
      "--collective-timeout",
      "600",  //
      "--worker_hosts",
      fmt::format("{}", fmt::join(workers, ","))};
  program.insert(program.end(), system.flags.begin(), system.flags.end());
  if (system.server) {
    program.insert(
        program.end(),
        {"--ps_hosts", fmt::format("{}:{}", LimitedHosts::address(serverHost), kServerPort)});
  }

  std::vector<ProcessSpec> all;
  const auto add = [&](const std::string& role, int number, int host) -> ProcessSpec& {
    ProcessSpec& one = all.emplace_back();
    one.name = fmt::format("{} {} {}", system.name, role, number);
    one.program = program;
    one.program.insert(one.program.end(),
                       {"--job_name", role, "--task_index", fmt::format("{}", number)});
    one.environment["COLLA_SECRET_FILE"] = secret;
    one.networkNamespace = hosts_.networkNamespace(host);
    return one;
  };
  for (int rank = 0; rank < model_.workers; ++rank) {
    ProcessSpec& worker = add("worker", rank, rank);
    if (rank > 0) continue;
    worker.program.insert(worker.program.end(), {"--json", training.times});
    if (!training.checkpoints.empty()) {
      worker.program.insert(worker.program.end(), {"--checkpoint-dir", training.checkpoints});
    }
  }
  if (system.server) add("ps", 0, serverHost);
  return all;
}

Result<HybridRun> HybridJob::run(const HybridSystem& system, std::int64_t steps,
                                 const std::string& checkpoints) const {
  const Training training{steps, checkpoints, coordinator_.scratch().path("steps.json")};
  COLLA_TRY_ASSIGN(const auto specs, processes(system, training));
  const int hosts = model_.workers + (system.server && !system.shared ? 1 : 0);
  LinkWatch watch(hosts, steps);
  COLLA_TRY(coordinator_
                .runTogether(specs, Deadline::after(kRunLimit),
                             [&](const std::list<Process>& processes) { watch.look(processes); })
                .status());
  HybridRun run;
  COLLA_TRY_ASSIGN(run.stepSeconds, readStepSeconds(training.times));
  if (std::cmp_not_equal(run.stepSeconds.size(), steps)) {
    return {StatusCode::kInternal, fmt::format("{} told of {} steps, not of {}", system.name,
                                               run.stepSeconds.size(), steps)};
  }
  run.loads = watch.loads();
  return run;
}

std::int64_t lastStepIn(const std::string& output) {
  constexpr std::string_view kStep = "Step ";
  for (std::size_t at = output.rfind(kStep); at != std::string::npos;
       at = at == 0 ? std::string::npos : output.rfind(kStep, at - 1)) {
    if (at > 0 && output[at - 1] != '\n') continue;
    std::int64_t step = 0;
    const char* const end = output.data() + output.size();
    const auto [stop, error] = std::from_chars(output.data() + at + kStep.size(), end, step);
    if (error == std::errc() && stop != end && *stop == '/') return step;
  }
  return 0;
}

Result<std::vector<double>> readStepSeconds(const std::string& path) {
  std::ifstream file(path);
  std::vector<double> seconds;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("seconds") || !json["seconds"].is_number()) {
      return {StatusCode::kIo, fmt::format("{} has a line that tells no seconds: {}", path, line)};
    }
    if (json.contains("step")) seconds.push_back(json["seconds"]);
  }
  if (seconds.empty()) return {StatusCode::kIo, fmt::format("no step is in {}", path)};
  return seconds;
}

}  // namespace colla::bench
