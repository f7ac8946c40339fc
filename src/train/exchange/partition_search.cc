#include "train/exchange/partition_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/check.h"
#include "colla/collectives.h"
#include "collective/rows.h"
#include "ps/client_options.h"

namespace colla::train {
namespace {

constexpr int kWarmup = 1;
constexpr std::size_t kSteps = 5;
constexpr double kSlower = 1.1;       // A trial that ends the search.
constexpr double kGoodEnough = 1.05;  // Of the fastest.
constexpr int kMostPerServer = 64;

ps::Declaration declarationOf(const Workers& workers, std::span<const TrialTable> tables,
                              int partitions) {
  ps::Declaration declaration;
  for (const TrialTable& table : tables) {
    declaration.entries.push_back(
        {.name = table.name, .kind = ps::Kind::kRows, .shape = table.shape, .order = 0});
  }
  declaration.layout = {.servers = workers.job.servers(), .partitions = partitions};
  declaration.optimizer = Sgd{};
  declaration.policy.workers = workers.size();
  for (int worker = 0; worker < workers.size(); ++worker) {
    declaration.firstSlices.push_back(workers.map.range(worker).begin);
  }
  declaration.firstSlices.push_back(workers.map.slices());
  declaration.threads = workers.job.threads();
  return declaration;
}

// One step's traffic.
Status exchange(ps::Client& client, std::span<const TrialTable> tables, std::size_t leaves,
                const ps::Finish& finish) {
  for (int entry = 0; entry < static_cast<int>(tables.size()); ++entry) {
    const std::vector<std::int64_t>& rows = tables[entry].rows;
    std::vector<float> values(rows.size() * client.layout().entries()[entry].width());
    COLLA_TRY(client.pullRows(entry, rows, values));
    std::vector<collective::Rows> partials(leaves);
    partials.front() = {rows, std::move(values)};
    COLLA_TRY(client.pushRows(entry, partials));
  }
  return client.finish(finish).status();
}

// The median over some steps, of the slowest worker in each.
Result<double> tryOne(const Workers& workers, std::span<const TrialTable> tables, int partitions) {
  COLLA_TRY_ASSIGN(const auto client,
                   ps::Client::connect(ps::clientOptions(workers.job),
                                       declarationOf(workers, tables, partitions)));
  if (workers.rank() == 0) {
    COLLA_TRY(client->start(0, std::vector<std::int64_t>(tables.size())));
  }
  COLLA_TRY(client->begin().status());
  const std::size_t leaves = workers.map.subtrees(workers.rank()).size();
  ps::Finish finish{.share = 1.0 / workers.size()};
  finish.present.assign(tables.size(), 1);
  std::array<double, kSteps> seconds{};
  for (int step = -kWarmup; step < static_cast<int>(kSteps); ++step) {
    const auto begin = std::chrono::steady_clock::now();
    COLLA_TRY(exchange(*client, tables, leaves, finish));
    if (step < 0) continue;
    seconds[step] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  COLLA_TRY(client->leave(/*again=*/true));
  COLLA_TRY(allreduce(workers.group, std::span<double>(seconds), {.op = ReduceOp::kMax}));
  std::ranges::sort(seconds);
  return seconds[kSteps / 2];
}

double fastestOf(std::span<const PartitionTrial> trials) {
  return std::ranges::min(trials, {}, &PartitionTrial::seconds).seconds;
}

}  // namespace

int nextPartitions(std::span<const PartitionTrial> trials, int servers, std::int64_t mostRows) {
  if (trials.empty()) return servers;
  const PartitionTrial& last = trials.back();
  const std::int64_t next = std::int64_t{2} * last.partitions;
  const bool slower = last.seconds > kSlower * fastestOf(trials);
  if (slower || next > mostRows || next > std::int64_t{kMostPerServer} * servers) return 0;
  return static_cast<int>(next);
}

PartitionChoice choosePartitions(std::span<const PartitionTrial> trials) {
  COLLA_CHECK(!trials.empty());
  const double enough = kGoodEnough * fastestOf(trials);
  PartitionChoice choice;
  for (const PartitionTrial& trial : trials) {
    choice.reason += fmt::format("{}{}: {:.3g} ms", choice.reason.empty() ? "" : ", ",
                                 trial.partitions, 1e3 * trial.seconds);
    if (choice.partitions == 0 && trial.seconds <= enough) choice.partitions = trial.partitions;
  }
  return choice;
}

Result<PartitionChoice> searchPartitions(const Workers& workers,
                                         std::span<const TrialTable> tables) {
  std::int64_t mostRows = 0;
  for (const TrialTable& table : tables) mostRows = std::max(mostRows, table.shape.front());
  std::vector<PartitionTrial> trials;
  // Times are the slowest worker's on every worker, so all go on and end alike.
  while (const int next = nextPartitions(trials, workers.job.servers(), mostRows)) {
    COLLA_TRY_ASSIGN(const double seconds, tryOne(workers, tables, next));
    trials.push_back({next, seconds});
  }
  return choosePartitions(trials);
}

}  // namespace colla::train
