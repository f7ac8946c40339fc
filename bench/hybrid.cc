// `colla bench hybrid`: a language model with large tables and sparse gradients, trained on hosts
// with limited links, with parameter servers for these tables, for everything and for nothing.
// Processes are started as users without a launcher start `colla train lm`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/command_line.h"
#include "bench/benchmark.h"
#include "bench/machine.h"
#include "bench/network.h"
#include "checkpoint/compare.h"
#include "rendezvous/secret.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kRunLimit = 1h;
// Namespaces of our own: every port is free.
constexpr int kWorkerPort = 7000;
constexpr int kServerPort = 7001;
constexpr int kWarmup = 3;  // Steps at a round's beginning that do not count.

// A way to train.
struct HybridSystem {
  std::string name;
  std::string flags;    // Of `colla train`.
  bool server = false;  // One, or none.
  bool shared = false;  // The server runs on worker 0's host, not on one of its own.
};

const std::vector<HybridSystem> kSystems = {
    {"hybrid", "--strategy hybrid", true},
    {"ps-sync", "--strategy ps-sync", true},
    {"allreduce-dense", "--strategy allreduce --sparse-as-dense"},
    {"allreduce-rows", "--strategy allreduce"},
    {"hybrid-shared", "--strategy hybrid", true, true},
    {"ps-sync-shared", "--strategy ps-sync", true, true}};

struct HybridOptions {
  CommonOptions common{.rounds = 3};
  int workers = 3;
  std::int64_t vocabulary = 200'000;
  std::int64_t width = 256;  // Of embedding and projection.
  std::int64_t units = 1024;
  std::int64_t candidates = 512;
  std::int64_t length = 20;
  std::int64_t batch = 24;  // Over all workers.
  std::string transport = "tcp-plain";
  std::vector<std::string> systems;  // In this order in every round.
  double gigabits = 1;               // Per second, of a link in each direction.
  std::int64_t checked = 20;         // Steps after which all systems must have the same bits.
  int steps = 7;                     // Of a round that count.
};

// What a host's link has carried, and what the processes have computed, when a step was reported.
struct Sample {
  std::int64_t step = 0;
  std::vector<LinkBytes> links;
  CpuTimes cpu;
  std::chrono::steady_clock::time_point time;
};

// One system on the hosts. Every measurement is a training of its own.
class HybridContender : public Contender {
 public:
  HybridContender(Coordinator& coordinator, const Hosts& hosts, const HybridOptions& options,
                  const HybridSystem& system, const std::string& first)
      : coordinator_(coordinator),
        hosts_(hosts),
        options_(options),
        system_(system),
        first_(first) {}

  const std::string& name() const override { return system_.name; }

  // Trains apart from the rounds, because checkpoints pass the links too. kInternal where the bits
  // differ from the first system's.
  Result<double> prepare() override {
    const auto directoryOf = [this](const std::string& name) {
      return coordinator_.scratch().path("run-" + name);
    };
    const std::string mine = directoryOf(name());
    COLLA_TRY(train(options_.checked, {"--checkpoint-dir", mine}));
    if (name() == first_) return 0.0;
    COLLA_TRY_ASSIGN(const auto a, checkpoint::Source::open(directoryOf(first_)));
    COLLA_TRY_ASSIGN(const auto b, checkpoint::Source::open(mine));
    const checkpoint::Comparison comparison = checkpoint::compare(a, b);
    for (const checkpoint::TensorComparison& tensor : comparison.tensors) {
      if (tensor.equal()) continue;
      return {StatusCode::kInternal,
              fmt::format("{} has not trained what {} has: {} is {} after the last step", name(),
                          first_, tensor.name, checkpoint::toString(tensor.outcome))};
    }
    if (!comparison.equal()) {
      return {StatusCode::kInternal,
              fmt::format("{} and {} have different checkpoints", name(), first_)};
    }
    std::error_code error;  // Checkpoints are large: only two are there at a time.
    std::filesystem::remove_all(mine, error);
    return 0.0;
  }

  Result<Timing> measure(long steps) override {
    COLLA_TRY(train(kWarmup + steps, {}));
    COLLA_TRY_ASSIGN(const auto all, readStepSeconds(kWarmup + steps));
    Timing timing{.seconds =
                      median({all.begin() + kWarmup, all.end()}) * static_cast<double>(steps)};
    // Between the first step that was reported and the last but one: then come checkpoints, and
    // what servers hold.
    std::erase_if(samples_, [&](const Sample& one) { return one.step >= kWarmup + steps; });
    if (samples_.size() < 2) return timing;
    const Sample& first = samples_.front();
    const Sample& last = samples_.back();
    timing.cpu = difference(last.cpu, first.cpu);
    timing.elapsed = std::chrono::duration<double>(last.time - first.time).count();
    setLoads(first, last);
    return timing;
  }

  // The most bytes of a step that pass any worker's link, then the server's if it has a host of its
  // own, in each direction; all links' highest load.
  void addLoads(Record& record) const {
    if (worker_) {
      record["worker_sent_bytes"] = worker_->first;
      record["worker_received_bytes"] = worker_->second;
    }
    if (server_) {
      record["server_sent_bytes"] = server_->first;
      record["server_received_bytes"] = server_->second;
    }
    if (!worker_) return;
    double most = std::max(worker_->first, worker_->second);
    if (server_) most = std::max({most, server_->first, server_->second});
    const double capacity = options_.gigabits * 1e9 / 8 * record["step_seconds"].get<double>();
    record["busiest_link"] = most / capacity;
  }

 private:
  using Load = std::pair<double, double>;  // Bytes sent and received in a step.

  int hostsInUse() const { return options_.workers + (system_.server && !system_.shared ? 1 : 0); }

  std::vector<std::string> commandLine(std::int64_t steps) const {
    std::string workers;
    for (int rank = 0; rank < options_.workers; ++rank) {
      workers += fmt::format("{}{}:{}", rank > 0 ? "," : "", Hosts::address(rank), kWorkerPort);
    }
    std::string line = fmt::format(
        "train lm --data synthetic:text:{}x{} --embedding {width} --projection {width} --units {} "
        "--candidates {} --length {} --batch {} --steps {} --dropout 0 --clip-norm 0 "
        "--optimizer sgd --lr 0.1 --eval-every 1 --no-eval --transport {} --threads 1 "
        "--collective-timeout 600 --worker_hosts {} {}",
        (steps + 1) * options_.batch * options_.length, options_.vocabulary, options_.units,
        options_.candidates, options_.length, options_.batch, steps, options_.transport, workers,
        system_.flags, fmt::arg("width", options_.width));
    if (system_.server) {
      const int host = system_.shared ? 0 : options_.workers;
      line += fmt::format(" --ps_hosts {}:{}", Hosts::address(host), kServerPort);
    }
    std::vector<std::string> words = {programBeside("colla")};
    std::istringstream rest(line);
    for (std::string word; rest >> word;) words.push_back(word);
    return words;
  }

  Status train(std::int64_t steps, const std::vector<std::string>& flagsOfFirst) {
    COLLA_TRY_ASSIGN(
        const std::string secret,
        coordinator_.scratch().write("secret", rendezvous::secretToHex(rendezvous::makeSecret())));
    std::filesystem::permissions(
        secret, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    const auto program = commandLine(steps);
    std::vector<ProcessSpec> specs;
    const auto add = [&](const std::string& role, int number, int host) {
      ProcessSpec& one =
          specs.emplace_back(ProcessSpec{.name = fmt::format("{} {} {}", name(), role, number),
                                         .program = program,
                                         .environment = {{"COLLA_SECRET_FILE", secret}},
                                         .networkNamespace = hosts_.networkNamespace(host)});
      one.program.insert(one.program.end(),
                         {"--job_name", role, "--task_index", fmt::format("{}", number)});
    };
    for (int rank = 0; rank < options_.workers; ++rank) add("worker", rank, rank);
    if (system_.server) add("ps", 0, system_.shared ? 0 : options_.workers);
    auto& words = specs.front().program;
    words.insert(words.end(), {"--json", timesFile()});
    words.insert(words.end(), flagsOfFirst.begin(), flagsOfFirst.end());
    std::span<const Processes::One> processes;
    specs.front().heard = [&](const std::string& line) { look(line, processes); };
    samples_.clear();
    return coordinator_.run(specs, Deadline::after(kRunLimit),
                            [&](std::span<const Processes::One> all) { processes = all; });
  }

  std::string timesFile() const { return coordinator_.scratch().path("steps.json"); }

  // Worker 0 writes "Step N/M …" for each step.
  void look(const std::string& line, std::span<const Processes::One> processes) {
    long step = 0;
    if (std::sscanf(line.c_str(), "Step %ld/", &step) != 1) return;
    Sample sample{step, {}, cpuTimes(processes), std::chrono::steady_clock::now()};
    for (int host = 0; host < hostsInUse(); ++host) {
      const auto bytes = linkBytes(processes[static_cast<std::size_t>(host)].pid);
      if (!bytes.ok()) return;  // It is about to end.
      sample.links.push_back(*bytes);
    }
    samples_.push_back(std::move(sample));
  }

  // One line for each step of `colla train --json`, then one for the total.
  Result<std::vector<double>> readStepSeconds(std::int64_t steps) const {
    std::ifstream file(timesFile());
    std::vector<double> seconds;
    for (std::string line; std::getline(file, line);) {
      const auto one = nlohmann::json::parse(line, nullptr, false);
      if (one.is_object() && one.contains("step")) seconds.push_back(one.value("seconds", 0.0));
    }
    if (std::cmp_equal(seconds.size(), steps)) return seconds;
    return {StatusCode::kInternal,
            fmt::format("{} reported {} steps, not {}", name(), seconds.size(), steps)};
  }

  void setLoads(const Sample& first, const Sample& last) {
    const auto steps = static_cast<double>(last.step - first.step);
    const auto perStep = [&](std::size_t host) {
      const LinkBytes& from = first.links[host];
      const LinkBytes& to = last.links[host];
      return Load{static_cast<double>(to.sent - from.sent) / steps,
                  static_cast<double>(to.received - from.received) / steps};
    };
    const auto workers = static_cast<std::size_t>(options_.workers);
    worker_ = Load{};
    for (std::size_t host = 0; host < workers; ++host) {
      worker_ = {std::max(worker_->first, perStep(host).first),
                 std::max(worker_->second, perStep(host).second)};
    }
    if (last.links.size() > workers) server_ = perStep(workers);
  }

  Coordinator& coordinator_;
  const Hosts& hosts_;
  const HybridOptions& options_;
  const HybridSystem& system_;
  const std::string& first_;
  std::vector<Sample> samples_;  // Of the last training.
  std::optional<Load> worker_;
  std::optional<Load> server_;
};

std::string hybridTable(const Records& records) {
  const auto megabytes = [](double bytes) { return numberText(bytes / 1e6); };
  return table(
      records,
      {textColumn("system", "system"), numberColumn("samples/s", "samples_per_s", numberText),
       numberColumn("step", "step_seconds", durationText)},
      {{"hybrid", "hybrid-shared"},
       [](const Record& record) { return record["samples_per_s"].get<double>(); },
       [](const Record&) { return std::string(); }},
      {numberColumn("worker MB out", "worker_sent_bytes", megabytes),
       numberColumn("in", "worker_received_bytes", megabytes),
       numberColumn("server MB out", "server_sent_bytes", megabytes),
       numberColumn("in", "server_received_bytes", megabytes),
       numberColumn("busiest link", "busiest_link", percentText)});
}

Result<Findings> runHybrid(const HybridOptions& options, Coordinator& coordinator) {
  COLLA_TRY(checkTorchProgram(programBeside("colla-train")));
  // One more for the server.
  COLLA_TRY_ASSIGN(const Hosts hosts,
                   Hosts::limited(coordinator, options.workers + 1, options.gigabits));
  warnIfBusy();
  ProgressLine progress;
  std::vector<std::unique_ptr<Contender>> contenders;
  std::string first;
  for (const HybridSystem& system : kSystems) {
    if (std::ranges::find(options.systems, system.name) == options.systems.end()) continue;
    if (first.empty()) first = system.name;
    contenders.push_back(
        std::make_unique<HybridContender>(coordinator, hosts, options, system, first));
  }
  RunnerOptions how;
  how.title = "hybrid";
  how.rounds = options.common.rounds;
  how.seconds = 0;
  how.iterations = options.steps;
  how.pointLimit = 24h;  // There is only this point.
  how.progress = [&](const std::string& line) { progress.show(line); };
  COLLA_TRY_ASSIGN(const auto outcomes, measure(contenders, how));
  Records records;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const double seconds = outcomes[i].seconds;
    Record& record = records.emplace_back(
        Record{{"system", contenders[i]->name()},
               {"workers", options.workers},
               {"batch", options.batch},
               {"step_seconds", seconds},
               {"samples_per_s", static_cast<double>(options.batch) / seconds}});
    static_cast<const HybridContender&>(*contenders[i]).addLoads(record);
    addRun(record, outcomes[i], "steps");
  }
  return Findings{hybridTable(records), std::move(records)};
}

template <typename Number>
void addNumber(CLI::App& app, const std::string& name, Number& value, double least, double most,
               const std::string& help) {
  app.add_option(name, value, help)
      ->check(CLI::Range(static_cast<Number>(least), static_cast<Number>(most)))
      ->capture_default_str();
}

}  // namespace

void addHybrid(CLI::App& bench, Action& action) {
  CLI::App* const app = bench.add_subcommand(
      "hybrid",
      "Measures a language model with large tables under hybrid, ps-sync and allreduce, on hosts "
      "with limited links, which it makes of network namespaces; needs root");
  app->footer(
      "The columns hybrid/it and hybrid-shared/it say how many times as fast as a line's system "
      "hybrid is, with the server on a host of its own and on a worker's.\n\n"
      "Examples:\n"
      "  colla bench hybrid --json out.json\n"
      "  colla bench hybrid --systems hybrid,ps-sync --units 2048 --rounds 5\n");
  const auto options = std::make_shared<HybridOptions>();
  for (const HybridSystem& system : kSystems) options->systems.push_back(system.name);
  HybridOptions& o = *options;
  addNumber(*app, "--vocabulary", o.vocabulary, 100, 1e7, "Words: rows of the model's tables");
  addNumber(*app, "--width", o.width, 1, 4096, "Numbers of a word, in both tables");
  addNumber(*app, "--units", o.units, 1, 16'384, "Of the LSTM");
  addNumber(*app, "--candidates", o.candidates, 1, 100'000, "Of the sampled softmax");
  addNumber(*app, "--length", o.length, 1, 1000, "Words of a sample");
  addNumber(*app, "--batch", o.batch, 1, 100'000, "Samples of a step, over all workers");
  addNumber(*app, "--workers", o.workers, 2, 64, "Each on a host of its own");
  app->add_option("--transport", o.transport,
                  "tcp-plain, or tcp (encrypted), which costs processors' time on top of the bytes")
      ->option_text("NAME")
      ->check(CLI::IsMember({"tcp-plain", "tcp"}))
      ->capture_default_str();
  app->add_option("--systems", o.systems,
                  "What to compare: hybrid, ps-sync, allreduce-dense, allreduce-rows, "
                  "hybrid-shared, ps-sync-shared")
      ->option_text("NAME")
      ->delimiter(',')
      ->check(CLI::IsMember(o.systems))
      ->default_str("all");
  addNumber(*app, "--gigabits", o.gigabits, 0.001, 100,
            "What each link carries in a second, in each direction");
  addNumber(*app, "--rounds", o.common.rounds, 1, 1000,
            "Trainings with each system; medians are reported");
  addNumber(*app, "--steps", o.steps, 1, 100'000,
            "Steps of each of these that count, behind three that warm up");
  addNumber(*app, "--checked", o.checked, 1, 100'000,
            "Steps after which all systems must have the same bits: one more training each");
  addJsonFlag(*app, o.common.jsonFile, "the results as JSON");
  app->callback([options, &action] {
    if (options->batch % options->workers != 0) {
      throw CLI::ValidationError(fmt::format("--batch {} must be a multiple of the {} workers",
                                             options->batch, options->workers));
    }
    action = [options] {
      return runBenchmark(options->common.jsonFile, [&](Coordinator& coordinator) {
        return runHybrid(*options, coordinator);
      });
    };
  });
}

}  // namespace colla::bench
