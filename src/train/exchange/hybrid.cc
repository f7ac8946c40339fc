#include "train/exchange/hybrid.h"

#include <algorithm>

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
    if (workers.rank() != 0) continue;
    log::info("table \"{}\": {}; {}", tables[i].name, toString(choice.route), choice.reason);
  }
  if (workers.rank() == 0 && std::ranges::find(routes, TableRoute::kServers) == routes.end()) {
    log::info("no table is left for the servers: --strategy allreduce does the same without them");
  }
  return routes;
}

}  // namespace

HybridExchange::HybridExchange(const Workers& workers, const ExchangeSetup& setup)
    : clips_(setup.clipNorm > 0) {
  if (setup.oneSlicePerBackward) {
    throw Error(
        StatusCode::kUnsupported,
        "hybrid is for the Trainer: a DistributedOptimizer can't tell which slice a table's "
        "gradients are of; use ps-sync or allreduce");
  }
  std::vector<Parameter> tables;
  for (const Parameter& parameter : setup.parameters) {
    const bool sparse = std::ranges::find(setup.rowSparse, parameter.name) != setup.rowSparse.end();
    if (sparse) tables.push_back(parameter);
  }
  if (tables.empty()) {
    throw Error(StatusCode::kInvalidArgument,
                "the model has no table with sparse gradients for hybrid's servers: use "
                "--strategy allreduce");
  }
  Touched touched(tables.size());
  if (setup.chooseRoutes || setup.partitions == kAutoPartitions) touched = setup.look(tables);
  std::vector<TableRoute> routes(tables.size(), TableRoute::kServers);
  if (setup.chooseRoutes) routes = chooseRoutes(workers, tables, touched);

  ExchangeSetup dense = setup;
  dense.parameters.clear();
  dense.rowSparse.clear();
  dense.clipNorm = 0;  // The servers say by how much.
  ServerLink::Tensors served;
  Touched servedRows;
  for (int i = 0; i < static_cast<int>(setup.parameters.size()); ++i) {
    const Parameter& parameter = setup.parameters[i];
    const auto table = std::ranges::find(tables, parameter.name, &Parameter::name);
    const auto number = static_cast<std::size_t>(table - tables.begin());
    if (table != tables.end() && routes[number] == TableRoute::kServers) {
      served.tables.push_back(parameter);
      served.orders.push_back(i);
      servedRows.push_back(touched[number]);
      continue;
    }
    dense.parameters.push_back(parameter);
    denseOrders_.push_back(i);
    if (table == tables.end()) continue;
    dense.rowSparse.push_back(parameter.name);
    if (routes[number] == TableRoute::kWhole) dense.travelDense.push_back(parameter.name);
  }
  const int partitions = partitionsFor(workers, setup, served.tables, servedRows);
  tables_ =
      std::make_unique<ServerLink>(workers, std::move(served),
                                   ServerPlan{.optimizer = optimizerForServers(setup.optimizer),
                                              .clipNorm = setup.clipNorm,
                                              .policy = *setup.policy,
                                              .partitions = partitions,
                                              .oneSlicePerBackward = setup.oneSlicePerBackward});
  dense_ = std::make_unique<AllreduceExchange>(workers, dense);
}

void HybridExchange::beginStep(bool stop) {
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
  const StepResult result = dense_->finishSums(end);
  ps::Finish finish{.share = end.share, .factor = end.factor, .stop = stop_};
  const auto sums = dense_->sums();
  for (std::size_t i = 0; i < sums.size() && clips_; ++i) {
    if (sums[i].defined()) finish.squares.emplace_back(denseOrders_[i], squaresOf(sums[i]));
  }
  dense_->update(end.factor, tables_->finish(std::move(finish)).turn.scale);
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
  ExchangeState served = snapshotOf(*tables_, refusal);
  state.step = served.step;
  state.later = std::move(served.later);
  return state;
}

std::int64_t HybridExchange::awaitOthers(std::int64_t /*step*/) { return tables_->waitForOthers(); }

std::unique_ptr<Exchange> makeHybrid(const Workers& workers, const ExchangeSetup& setup) {
  return std::make_unique<HybridExchange>(workers, setup);
}

}  // namespace colla::train
