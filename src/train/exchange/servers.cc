#include "train/exchange/servers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "colla/error.h"
#include "ps/finite.h"
#include "train/exchange/partition_search.h"

namespace colla::train {
namespace {

// Servers' parameters are of float32 or float64.
const checkpoint::TensorView* firstNotFinite(std::span<const checkpoint::TensorView> parameters) {
  for (const checkpoint::TensorView& view : parameters) {
    const std::size_t count = view.bytes.size() / sizeOf(view.type);
    if (ps::firstNotFinite(view.bytes.data(), count, view.type)) return &view;
  }
  return nullptr;
}

}  // namespace

Status checkForServers(const Optimizer& optimizer) {
  if (std::holds_alternative<OptimizerOptions>(optimizer)) return {};
  return {StatusCode::kInvalidArgument,
          fmt::format("servers run Colla's optimizers, but the program brings its own: "
                      "use --optimizer, or --strategy {}",
                      strategyNames([](const StrategyTraits& traits) { return !traits.servers; }))};
}

const OptimizerOptions& optimizerForServers(const Optimizer& optimizer) {
  throwIfError(checkForServers(optimizer));
  return std::get<OptimizerOptions>(optimizer);
}

int partitionsFor(const Workers& workers, const ExchangeSetup& setup,
                  std::span<const Parameter> tables,
                  std::span<const std::vector<std::int64_t>> touched) {
  const int wanted = setup.options.servers.partitions;
  if (wanted != ServerOptions::kAutoPartitions) return wanted;
  std::vector<TrialTable> trial;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    trial.push_back({tables[i].name, tables[i].tensor.sizes().vec(), touched[i]});
  }
  if (trial.empty()) return 0;
  const PartitionChoice choice = valueOrThrow(searchPartitions(workers, trial));
  if (workers.records()) {
    log::info(
        "{} partitions of each table: pulls and pushes of the first batch's rows took, by "
        "partitions, {}",
        choice.partitions, choice.reason);
  }
  return choice.partitions;
}

// The servers take the snapshot now, unless they have it; the saver's thread reads it while
// training goes on.
ExchangeState snapshotOf(ServerLink& link, std::int64_t wanted, const Refusal& refusal) {
  ExchangeState state;
  state.step = link.takeSnapshot(wanted);
  state.later = [&link, refusal, step = state.step,
                 copy = std::make_shared<std::shared_ptr<const ServerLink::Copy>>()]()
      -> Result<checkpoint::Contents> {
    COLLA_TRY_ASSIGN(*copy, link.readSnapshot());
    const auto* const bad = refusal ? firstNotFinite((*copy)->parameters) : nullptr;
    if (bad != nullptr) return refusal(step, fmt::format("\"{}\"", bad->name));
    return checkpoint::Contents{.parameters = (*copy)->parameters,
                                .buffers = (*copy)->buffers,
                                .optimizer = (*copy)->optimizer};
  };
  return state;
}

ServerExchange::ServerExchange(const Workers& workers, const ExchangeSetup& setup)
    : together_(setup.policy->together()), own_(setup.numbers) {
  ServerLink::Tensors served;
  std::vector<int> tableOrders;
  for (int i = 0; i < static_cast<int>(setup.parameters.size()); ++i) {
    const Parameter& parameter = setup.parameters[i];
    if (std::ranges::find(setup.rowSparse, parameter.name) != setup.rowSparse.end()) {
      served.tables.push_back(parameter);
      tableOrders.push_back(i);
    } else {
      served.parameters.push_back(parameter);
      served.orders.push_back(i);
    }
  }
  served.orders.insert(served.orders.end(), tableOrders.begin(), tableOrders.end());
  served.buffers = setup.buffers;
  served.numbers = setup.numbers;
  std::vector<std::vector<std::int64_t>> touched;
  if (setup.options.servers.partitions == ServerOptions::kAutoPartitions) {
    touched = setup.look(served.tables);
  }
  const ServerPlan plan{.optimizer = optimizerForServers(setup.optimizer),
                        .clipNorm = setup.clipNorm,
                        .policy = *setup.policy,
                        .partitions = partitionsFor(workers, setup, served.tables, touched),
                        .oneSlicePerBackward = setup.oneSlicePerBackward,
                        .metrics = setup.metrics};
  link_ = std::make_unique<ServerLink>(workers, std::move(served), plan);
}

void ServerExchange::beginStep(ps::Stop stop) {
  stop_ = stop;
  std::ranges::fill(own_, 0.0);
}

void ServerExchange::addBuffer(int buffer, const torch::Tensor& value, bool changed) {
  link_->addBuffer(buffer, value, changed);
}

void ServerExchange::addNumbers(std::span<const double> numbers) {
  link_->addNumbers(numbers);
  for (std::size_t i = 0; i < own_.size(); ++i) own_[i] += numbers[i];
}

StepResult ServerExchange::finish(const StepEnd& end) {
  // Servers that wait for every worker wait for those without samples too.
  const bool empty = end.empty || (end.share == 0 && !together_);
  const ServerLink::End said = link_->finish({.share = end.share,
                                              .samples = end.samples,
                                              .factor = end.factor,
                                              .plateau = end.plateau,
                                              .snapshotAt = end.saveAt,
                                              .empty = empty,
                                              .stop = stop_});
  StepResult result;
  // The servers' numbers are of the last update, which need not be this worker's.
  result.numbers = own_;
  if (together_) result.numbers.assign(said.numbers.begin(), said.numbers.end());
  if (!empty) {
    result.trained =
        static_cast<double>(said.turn.samples - std::exchange(trained_, said.turn.samples));
  }
  result.stop = said.turn.stop;
  result.step = said.turn.step;
  result.dropped = said.turn.dropped;
  return result;
}

void ServerExchange::start(std::int64_t step, const SavedState& saved) {
  link_->start(step, saved.value_or(std::span<const checkpoint::TensorView>()));
}

NamedTensors ServerExchange::leaveEpoch() {
  link_->leaveEpoch();
  return {};
}

void ServerExchange::enterEpoch(std::int64_t /*step*/,
                                std::span<const checkpoint::TensorView> /*state*/) {
  trained_ = link_->resume();
}

ExchangeState ServerExchange::state(std::int64_t step, const Refusal& refusal) {
  return snapshotOf(*link_, step, refusal);
}

std::int64_t ServerExchange::awaitOthers(std::int64_t /*step*/) { return link_->waitForOthers(); }

std::unique_ptr<Exchange> makeServers(const Workers& workers, const ExchangeSetup& setup) {
  return std::make_unique<ServerExchange>(workers, setup);
}

}  // namespace colla::train
