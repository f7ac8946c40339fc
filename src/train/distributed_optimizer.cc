#include "colla/distributed_optimizer.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/log.h"
#include "train/exchange/exchange.h"
#include "train/exchange/tensor_views.h"
#include "train/groups.h"
#include "train/run_plan.h"
#include "train/shared_views.h"
#include "train/torch_state.h"

namespace colla {
namespace {

std::vector<train::Parameter> trainedOf(torch::nn::Module& module, const Optimizer& optimizer,
                                        const DistributedOptions& options) {
  train::freeze(module, options.groups);
  std::vector<train::Parameter> parameters;
  for (const auto& item : module.named_parameters()) {
    if (item.value().requires_grad()) parameters.push_back({item.key(), item.value()});
  }
  return train::withOptimizers(std::move(parameters), optimizer, options.groups);
}

train::ExchangeSetup setupOf(const std::vector<train::Parameter>& parameters,
                             const Optimizer& optimizer, const DistributedOptions& options,
                             const Job& job, train::TrainMetrics* metrics) {
  const ServerOptions& servers = options.strategyOptions.servers;
  throwIfError(checkOptions(options.strategy, options.strategyOptions));
  if (servers.partitions == ServerOptions::kAutoPartitions) {
    throw Error(StatusCode::kUnsupported, "a DistributedOptimizer can't find partitions by trying");
  }
  train::ExchangeSetup setup;
  setup.parameters = parameters;
  setup.rowSparse = options.rowSparse;
  setup.optimizer = optimizer;
  setup.clipNorm = options.clipNorm;
  setup.oneSlicePerBackward = true;
  setup.options = options.strategyOptions;
  setup.metrics = metrics;
  if (!hasServers(options.strategy)) return setup;
  if (job.servers() == 0) {
    throw Error(StatusCode::kInvalidArgument,
                fmt::format("strategy {} needs parameter servers: start the job with colla run "
                            "--ps 1",
                            toString(options.strategy)));
  }
  setup.policy = valueOrThrow(train::policyOf(options.strategy, servers, job.size()));
  return setup;
}

}  // namespace

struct DistributedOptimizer::State {
  State(Job& job, torch::nn::Module& module, const Optimizer& optimizer,
        const DistributedOptions& options)
      : workers(train::Workers::all(job)),
        servers(hasServers(options.strategy)),
        parameters(trainedOf(module, optimizer, options)),
        exchange(train::makeExchange(options.strategy, workers,
                                     setupOf(parameters, optimizer, options, job, &metrics))),
        stepBegan(std::chrono::steady_clock::now()) {
    exchange->start(0, std::nullopt);
  }

  const train::Workers workers;
  const bool servers;
  const std::vector<train::Parameter> parameters;
  train::TrainMetrics metrics;
  const std::unique_ptr<train::Exchange> exchange;
  TimePoint stepBegan;  // At the end of the one before.
};

DistributedOptimizer::DistributedOptimizer(Job& job, torch::nn::Module& module,
                                           const Optimizer& optimizer,
                                           const DistributedOptions& options)
    : state_(std::make_unique<State>(job, module, optimizer, options)) {}

DistributedOptimizer::~DistributedOptimizer() {
  try {
    state_->exchange->leave();
  } catch (const Error& error) {
    log::warn("leaving the servers: {}", error.what());
  }
}

SliceRange DistributedOptimizer::slices() const { return state_->workers.slices(); }

void DistributedOptimizer::step(double factor) {
  train::Exchange& exchange = *state_->exchange;
  const int missing = exchange.missingSlices();
  if (missing > 0) {
    throw Error(StatusCode::kInvalidArgument,
                fmt::format("step() came after backward() of {} of this worker's {} slices",
                            slices().size() - missing, slices().size()));
  }
  const double share = static_cast<double>(slices().size()) / state_->workers.map.slices();
  exchange.finish({.share = share,
                   .samples = slices().size(),
                   .batch = state_->workers.map.slices(),
                   .factor = factor});
  const TimePoint now = std::chrono::steady_clock::now();
  state_->metrics.stepEnded(0, now - std::exchange(state_->stepBegan, now));
}

void DistributedOptimizer::countSamples(std::int64_t samples) {
  state_->metrics.countSamples(samples);
}

void DistributedOptimizer::average() { state_->exchange->settle(); }

void DistributedOptimizer::zeroGrad() {
  for (const auto& parameter : state_->parameters) parameter.tensor.mutable_grad().reset();
}

void DistributedOptimizer::broadcastState() {
  if (state_->servers) return;
  const train::ExchangeState now = state_->exchange->state(0, nullptr);
  state_->exchange->start(0, now.optimizer);
}

void broadcastParameters(Job& job, torch::nn::Module& module) {
  std::vector<train::Parameter> tensors;
  for (const auto& item : module.named_parameters()) tensors.push_back({item.key(), item.value()});
  for (const auto& item : module.named_buffers()) tensors.push_back({item.key(), item.value()});
  train::broadcastTensors(job.world(), tensors);
}

void broadcastOptimizerState(Job& job, torch::optim::Optimizer& optimizer,
                             const torch::nn::Module& module) {
  NamedTensors parameters;
  for (const auto& item : module.named_parameters()) {
    parameters.emplace_back(item.key(), item.value());
  }
  const NamedTensors state = train::readState(optimizer, parameters);
  const train::SharedViews shared(job.world(), train::viewsOf(state));
  if (job.rank() != 0) train::writeState(optimizer, parameters, train::tensorsOf(shared.views()));
}

}  // namespace colla
