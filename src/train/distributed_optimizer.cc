#include "colla/distributed_optimizer.h"

#include <fmt/format.h>

#include "train/reducer.h"
#include "train/replica.h"
#include "train/shared_views.h"
#include "train/tensors.h"
#include "train/torch_state.h"
#include "train/updater.h"

namespace colla {
namespace {

std::vector<train::Parameter> trainedOf(const torch::nn::Module& module) {
  std::vector<train::Parameter> parameters;
  for (const auto& item : module.named_parameters()) {
    if (item.value().requires_grad()) parameters.push_back({item.key(), item.value()});
  }
  return parameters;
}

std::vector<train::Reducer::Entry> entriesOf(const std::vector<train::Parameter>& parameters) {
  std::vector<train::Reducer::Entry> entries;
  for (const auto& [name, tensor] : parameters) entries.push_back({name, tensor, true});
  return entries;
}

}  // namespace

struct DistributedOptimizer::State {
  State(Job& itsJob, torch::nn::Module& module, const Optimizer& optimizer,
        const DistributedOptions& itsOptions)
      : job(itsJob),
        options(itsOptions),
        parameters(trainedOf(module)),
        reducer(job, valueOrThrow(SliceMap::even(job.slices(), job.size())), entriesOf(parameters),
                {.op = ReduceOp::kAverage, .sliceIsBackward = true}),
        updater(train::makeUpdater(optimizer, parameters)),
        gradients(parameters.size()) {}

  Job& job;
  DistributedOptions options;
  std::vector<train::Parameter> parameters;
  train::Reducer reducer;
  std::unique_ptr<train::Updater> updater;
  std::vector<torch::Tensor> gradients;
};

DistributedOptimizer::DistributedOptimizer(Job& job, torch::nn::Module& module,
                                           const Optimizer& optimizer,
                                           const DistributedOptions& options)
    : state_(std::make_unique<State>(job, module, optimizer, options)) {}
DistributedOptimizer::~DistributedOptimizer() = default;

SliceRange DistributedOptimizer::slices() const { return state_->reducer.slices(); }

void DistributedOptimizer::step(double factor) {
  State& state = *state_;
  if (state.reducer.missingSlices() > 0) {
    throw Error(StatusCode::kInvalidArgument,
                fmt::format("step() came after backward() of {} of this worker's {} slices",
                            slices().size() - state.reducer.missingSlices(), slices().size()));
  }
  state.reducer.finish();
  for (std::size_t i = 0; i < state.gradients.size(); ++i) {
    state.gradients[i] = state.reducer.sum(static_cast<int>(i));
  }
  const torch::NoGradGuard noGrad;
  state.updater->apply(state.gradients, factor,
                       train::clipFactorOf(state.gradients, state.options.clipNorm));
}

void DistributedOptimizer::zeroGrad() {
  for (const auto& parameter : state_->parameters) parameter.tensor.mutable_grad().reset();
}

void DistributedOptimizer::broadcastState() {
  const train::SharedViews shared(state_->job.world(), state_->updater->state());
  throwIfError(state_->updater->restore(shared.views()));
}

void broadcastParameters(Job& job, torch::nn::Module& module) {
  std::vector<train::Parameter> tensors;
  for (const auto& item : module.named_parameters()) tensors.push_back({item.key(), item.value()});
  for (const auto& item : module.named_buffers()) tensors.push_back({item.key(), item.value()});
  train::broadcastTensors(job.world(), tensors);
}

void broadcastOptimizerState(Job& job, torch::optim::Optimizer& optimizer,
                             const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& item : module.named_parameters()) names.push_back(item.key());
  const train::NamedTensors state = train::readState(optimizer, names);
  const train::SharedViews shared(job.world(), train::viewsOf(state));
  if (job.rank() != 0) train::writeState(optimizer, names, train::tensorsOf(shared.views()));
}

}  // namespace colla
