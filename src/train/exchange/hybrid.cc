#include "train/exchange/hybrid.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "colla/collectives.h"
#include "colla/error.h"
#include "train/exchange/servers.h"
#include "train/exchange/table_routes.h"

namespace colla::train {
namespace {

using Touched = std::vector<std::vector<std::int64_t>>;

// By the rows that the busiest worker's first batch reads, so that all workers choose the same.
std::vector<TableRoute> chooseRoutes(const Workers& workers, std::span<const Parameter> tables,
                                     const Touched& touched) {
  std::vector<std::int64_t> most;
  for (const auto& rows : touched) most.push_back(static_cast<std::int64_t>(rows.size()));
  throwIfError(allreduce(workers.group, most, {.op = ReduceOp::kMax}));
  std::vector<TableRoute> routes;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const torch::Tensor& tensor = tables[i].tensor;
    const std::int64_t rows = std::max<std::int64_t>(1, tensor.size(0));
    const auto width = static_cast<std::size_t>(tensor.numel() / rows);
    const RouteChoice choice =
        chooseRoute({rows, width, most[i]}, workers.size(), workers.job.servers());
    routes.push_back(choice.route);
    if (!workers.records()) continue;
    log::info("table \"{}\": {}; {}", tables[i].name, toString(choice.route), choice.reason);
  }
  if (workers.records() && std::ranges::find(routes, TableRoute::kServers) == routes.end()) {
    log::info("no table is left for the servers: --strategy allreduce does the same without them");
  }
  return routes;
}

bool isTable(const ExchangeSetup& setup, const Parameter& parameter) {
  return std::ranges::find(setup.rowSparse, parameter.name) != setup.rowSparse.end();
}

HybridParts partsOf(const Workers& workers, const ExchangeSetup& setup) {
  std::vector<Parameter> tables;
  std::ranges::copy_if(setup.parameters, std::back_inserter(tables),
                       [&](const Parameter& parameter) { return isTable(setup, parameter); });
  Touched touched(tables.size());
  const bool measures =
      setup.chooseRoutes || setup.options.servers.partitions == ServerOptions::kAutoPartitions;
  if (measures && !tables.empty()) touched = setup.look(tables);
  std::vector<TableRoute> routes(tables.size(), TableRoute::kServers);
  if (setup.chooseRoutes && !tables.empty()) routes = chooseRoutes(workers, tables, touched);

  HybridParts parts{.dense = setup, .denseOrders = {}, .served = {}, .servers = {}};
  parts.dense.parameters.clear();
  parts.dense.rowSparse.clear();
  Touched servedRows;
  for (int i = 0; i < static_cast<int>(setup.parameters.size()); ++i) {
    const Parameter& parameter = setup.parameters[i];
    const auto table = std::ranges::find(tables, parameter.name, &Parameter::name);
    const auto number = static_cast<std::size_t>(table - tables.begin());
    if (table != tables.end() && routes[number] == TableRoute::kServers) {
      parts.served.tables.push_back(parameter);
      parts.served.orders.push_back(i);
      servedRows.push_back(touched[number]);
      continue;
    }
    parts.dense.parameters.push_back(parameter);
    parts.denseOrders.push_back(i);
    if (table == tables.end()) continue;
    parts.dense.rowSparse.push_back(parameter.name);
    if (routes[number] == TableRoute::kWhole) parts.dense.travelDense.push_back(parameter.name);
  }
  parts.servers = {.optimizer = optimizerForServers(setup.optimizer),
                   .clipNorm = setup.clipNorm,
                   .policy = *setup.policy,
                   .partitions = partitionsFor(workers, setup, parts.served.tables, servedRows),
                   .metrics = setup.metrics};
  return parts;
}

// Where no table is for the servers: an allreduce. The servers hold nothing and stay until the
// workers leave, as the job's epochs want it.
class IdleServersExchange final : public AllreduceExchange {
 public:
  IdleServersExchange(const Workers& workers, const HybridParts& parts, bool tables)
      : AllreduceExchange(workers, parts.dense),
        servers_(workers, {}, parts.servers),
        notes_(workers.records() && !tables) {}

  void start(std::int64_t step, const SavedState& saved) override {
    AllreduceExchange::start(step, saved);
    servers_.start(step, {});
    if (!notes_) return;
    log::info(
        "the model has no tables with sparse gradients for servers: --strategy hybrid runs as "
        "allreduce");
  }
  NamedTensors leaveEpoch() override {
    servers_.leaveEpoch();
    return AllreduceExchange::leaveEpoch();
  }
  void enterEpoch(std::int64_t step, std::span<const checkpoint::TensorView> state) override {
    AllreduceExchange::start(step, state);
    servers_.resume();
  }
  void leave() override { servers_.leave(); }

 private:
  ServerLink servers_;
  const bool notes_;
};

}  // namespace

HybridExchange::HybridExchange(const Workers& workers, HybridParts parts)
    : denseOrders_(std::move(parts.denseOrders)), clips_(parts.servers.clipNorm > 0) {
  parts.dense.clipNorm = 0;  // The servers say by how much.
  tables_ = std::make_unique<ServerLink>(workers, std::move(parts.served), parts.servers);
  dense_ = std::make_unique<AllreduceExchange>(workers, parts.dense);
}

void HybridExchange::beginStep(ps::Stop stop) {
  stop_ = stop;
  dense_->beginStep(stop);
}

void HybridExchange::beginSlice(int slice) {
  dense_->beginSlice(slice);
  tables_->beginSlice(slice);
}

void HybridExchange::addBuffer(int buffer, const torch::Tensor& value, bool changed) {
  dense_->addBuffer(buffer, value, changed);
}

void HybridExchange::endSlice() {
  dense_->endSlice();
  tables_->endSlice();
}

// The servers know the rows' gradients and this worker the rest: the squares of the latter go to
// the servers, which answer with what clipping multiplies all gradients by.
StepResult HybridExchange::finish(const StepEnd& end) {
  tables_->backwardEnded();
  const StepResult result = dense_->finishSums(end);
  ps::Finish finish{
      .share = end.share, .factor = end.factor, .plateau = end.plateau, .stop = stop_};
  const auto sums = dense_->sums();
  for (std::size_t i = 0; i < sums.size() && clips_; ++i) {
    if (sums[i].defined()) finish.squares.emplace_back(denseOrders_[i], squaresOf(sums[i]));
  }
  dense_->update(end.factor * end.plateau, tables_->finish(std::move(finish)).turn.scale);
  return result;
}

void HybridExchange::start(std::int64_t step, const SavedState& saved) {
  if (!saved) {
    dense_->start(step, saved);
    tables_->start(step, {});
    return;
  }
  std::vector<checkpoint::TensorView> rest;  // What servers do not hold.
  for (const checkpoint::TensorView& view : *saved) {
    if (!tables_->updates(view.name)) rest.push_back(view);
  }
  dense_->start(step, rest);
  tables_->start(step, *saved);
}

NamedTensors HybridExchange::leaveEpoch() {
  tables_->leaveEpoch();
  return dense_->leaveEpoch();
}

void HybridExchange::enterEpoch(std::int64_t step, std::span<const checkpoint::TensorView> state) {
  dense_->enterEpoch(step, state);
  tables_->resume();
}

ExchangeState HybridExchange::state(std::int64_t step, const Refusal& refusal) {
  ExchangeState state = dense_->state(step, refusal);
  ExchangeState served = snapshotOf(*tables_, step, refusal);
  state.step = served.step;
  state.later = std::move(served.later);
  return state;
}

std::int64_t HybridExchange::awaitOthers(std::int64_t /*step*/) { return tables_->waitForOthers(); }

std::unique_ptr<Exchange> makeHybrid(const Workers& workers, const ExchangeSetup& setup) {
  if (setup.oneSlicePerBackward) {
    throw Error(
        StatusCode::kUnsupported,
        "hybrid is for the Trainer: a DistributedOptimizer can't tell which slice a table's "
        "gradients are of; use ps-sync or allreduce");
  }
  HybridParts parts = partsOf(workers, setup);
  if (parts.served.tables.empty()) {
    return std::make_unique<IdleServersExchange>(workers, parts, !parts.dense.rowSparse.empty());
  }
  return std::make_unique<HybridExchange>(workers, std::move(parts));
}

}  // namespace colla::train
