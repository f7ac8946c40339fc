#include "bench/trainings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

// Into so many parts a system cuts what it verifies: independent workers have whole batches then.
int sharesOf(const TrainSystem& system) { return system.independent ? 1 : system.workers; }

Status checkLosses(const std::vector<TrainSystem>& systems, const TrainPoint& point,
                   std::span<const double> losses) {
  constexpr double kTolerance = 1e-3;
  const bool apart = point.model.batchStatistics || point.batch.perWorker;
  std::map<int, std::size_t> firstOf;  // By shares, if these are compared apart.
  for (std::size_t i = 0; i < systems.size(); ++i) {
    const std::string& name = systems[i].name;
    // A busy machine makes asynchronous updates arbitrarily stale: only infinities are wrong.
    if (systems[i].asynchronous) {
      if (std::isfinite(losses[i])) continue;
      return {StatusCode::kInternal,
              fmt::format("the loss of {} is {}: it diverges", name, losses[i])};
    }
    const auto first = firstOf.emplace(apart ? sharesOf(systems[i]) : 1, i).first->second;
    // Written so that NaN fails.
    if (std::abs(losses[i] - losses[first]) <= kTolerance * std::abs(losses[first])) continue;
    return {
        StatusCode::kInternal,
        fmt::format("after {} steps the loss of {} is {:.6g}, but that of {} is {:.6g}: they "
                    "do not train the same",
                    point.model.verifySteps, name, losses[i], systems[first].name, losses[first])};
  }
  return {};
}

Record recordOf(const TrainSystem& system, const TrainPoint& point, const Measurement& outcome,
                const AgentContender& contender, bool servers, std::optional<double> exposed) {
  const std::int64_t batch = point.batch.ofAll(system.workers);
  Record record;
  if (servers) record["part"] = "train";
  record["system"] = system.name;
  record["model"] = point.model.name;
  record["batch"] = batch;
  record["workers"] = system.workers;
  record["samples_per_s"] = static_cast<double>(batch) / outcome.seconds;
  record["step_seconds"] = outcome.seconds;
  record[servers ? "worker_pss_bytes" : "pss_bytes"] = contender.memory(" rank ");
  const std::size_t server = contender.memory(" server ");
  if (servers && server > 0) record["server_pss_bytes"] = server;
  if (point.batch.perWorker) record["batch_per_worker"] = point.batch.count;
  if (exposed) record["exposed_seconds"] = *exposed;
  record["loss"] = outcome.value;
  addRun(record, outcome, "steps");
  return record;
}

}  // namespace

std::vector<BatchSize> TrainingOptions::batchesOf(const BenchModel& model) const {
  if (!batches.empty()) return batches;
  if (servers && model.name != "lr") return {{100}};
  return model.batches;
}

Status checkBatches(const TrainingOptions& options) {
  for (const std::string& name : options.models) {
    COLLA_TRY_ASSIGN(const BenchModel* const model, parseModel(name));
    const std::int64_t samples = options.samplesOf(*model);
    for (const BatchSize batch : options.batchesOf(*model)) {
      const std::int64_t both = batch.ofAll(2);
      if (both >= 2 && both % 2 == 0 && samples % both == 0) continue;
      return {StatusCode::kInvalidArgument,
              batch.perWorker
                  ? fmt::format("--batch-per-worker {}, twice, must divide the {} samples of {}",
                                batch.count, samples, name)
                  : fmt::format("--batch {} must be even and divide the {} samples of {}",
                                batch.count, samples, name)};
    }
  }
  return {};
}

Result<Records> measureTraining(Coordinator& coordinator, const std::vector<TrainSystem>& systems,
                                const TrainPoint& point, const RunnerOptions& how, bool servers) {
  std::vector<std::unique_ptr<Contender>> contenders;
  std::vector<const AgentContender*> agents;
  for (const TrainSystem& system : systems) {
    auto contender = std::make_unique<AgentContender>(
        coordinator, system.name,
        AgentContender::Options{
            .prepare =
                fmt::format("{} {} {} {} {} {}", point.model.name, point.samples,
                            point.batch.ofAll(sharesOf(system)),
                            point.batch.ofWorker(system.workers), point.model.rate, point.path),
            .verifySteps = point.model.verifySteps,
            .independent = system.independent,
            .memory = true});
    agents.push_back(contender.get());
    contenders.push_back(std::move(contender));
  }
  RunnerOptions options = how;
  options.title = fmt::format("{} batch {}", point.model.name, toString(point.batch));
  options.agree = [&](std::span<const double> losses) {
    return checkLosses(systems, point, losses);
  };
  COLLA_TRY_ASSIGN(const auto outcomes, measure(contenders, options));
  const auto secondsOf = [&](const std::string& name) -> std::optional<double> {
    const auto it = std::ranges::find(systems, name, &TrainSystem::name);
    if (it == systems.end()) return {};
    return outcomes[static_cast<std::size_t>(it - systems.begin())].seconds;
  };
  Records records;
  for (std::size_t i = 0; i < systems.size(); ++i) {
    std::optional<double> exposed = secondsOf("colla-2x1");
    if (systems[i].name != "colla-2") exposed.reset();
    if (exposed) exposed = outcomes[i].seconds - *exposed;
    records.push_back(recordOf(systems[i], point, outcomes[i], *agents[i], servers, exposed));
  }
  return records;
}

std::string trainingsTable(const Records& records, const std::vector<std::string>& ours,
                           const std::vector<Column>& last) {
  const auto batch = [](const Record& record) {
    if (!record.contains("batch_per_worker")) {
      return record.contains("batch") ? record["batch"].dump() : std::string();
    }
    return record["batch_per_worker"].dump() + "/worker";
  };
  const Ratios ratios{
      ours, [](const Record& record) { return record["samples_per_s"].get<double>(); },
      [batch](const Record& record) { return record["model"].dump() + batch(record); }};
  return table(records,
               {textColumn("model", "model"),
                {"batch", batch},
                textColumn("system", "system"),
                numberColumn("samples/s", "samples_per_s", numberText),
                numberColumn("step", "step_seconds", durationText)},
               ratios, last);
}

Status TrainingsBench::startColla(const TrainSystem& system, const std::string& strategy,
                                  int servers) {
  // `first` is the worker that rank 0 of the job is.
  const auto job = [&](const std::string& name, int np, int first) {
    const Stage stage{coordinator_, np, Net::kShm, nullptr, servers};
    return collaJob(stage, name, "shm", [&](int rank, ProcessSpec& process) {
      if (rank < np) process.name = fmt::format("{} rank {}", system.name, first + rank);
      process.program = {worker_,
                         coordinator_.socketPath(),
                         system.name,
                         fmt::format("{}", first + rank),
                         fmt::format("{}", system.workers),
                         strategy};
    });
  };
  SystemSpec all{system.name, system.workers, {}};
  const bool alone = system.independent && servers == 0;
  for (int first = 0; first < (alone ? system.workers : 1); ++first) {
    const std::string name = alone ? fmt::format("{}-{}", system.name, first) : system.name;
    SystemSpec one = job(name, alone ? 1 : system.workers, first);
    std::ranges::move(one.processes, std::back_inserter(all.processes));
  }
  COLLA_TRY(start(all));
  systems_.push_back(system);
  return {};
}

Status TrainingsBench::measureModel(const BenchModel& model, Records& records) {
  const std::int64_t samples = options_.samplesOf(model);
  const std::string path = fmt::format(
      "{}/{}", coordinator_.scratch().directoryFor(model.fileBytes(samples)), model.name);
  progress_.show(fmt::format("make the data of {}", model.name));
  COLLA_TRY(coordinator_.run(
      {.name = "make files",
       .program = {worker_, "files", model.name, fmt::format("{}", samples), path}},
      Deadline::after(300s)));
  for (const BatchSize batch : options_.batchesOf(model)) {
    COLLA_TRY_ASSIGN(const Records measured,
                     measureTraining(coordinator_, systems_, {model, samples, path, batch},
                                     runnerOptions(""), options_.servers));
    records.insert(records.end(), measured.begin(), measured.end());
  }
  std::error_code ignored;  // Agents hold the files until they get the next ones.
  for (const char* end : {".x", ".y", ".w"}) std::filesystem::remove(path + end, ignored);
  return {};
}

}  // namespace colla::bench
