// The strategies whose parameters live on servers: ps-sync, ps-async and ps-ssp, told apart by the
// servers' policy alone (ps/policy.h).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "train/exchange/exchange.h"
#include "train/exchange/server_link.h"

namespace colla::train {

class ServerExchange final : public Exchange {
 public:
  ServerExchange(const Workers& workers, const ExchangeSetup& setup);

  void beginStep(ps::Stop stop) override;
  void beginSlice(int slice) override { link_->beginSlice(slice); }
  void addBuffer(int buffer, const torch::Tensor& value, bool changed) override;
  void addNumbers(std::span<const double> numbers) override;
  void endSlice() override { link_->endSlice(); }
  int missingSlices() const override { return link_->missingSlices(); }
  StepResult finish(const StepEnd& end) override;

  void start(std::int64_t step, const SavedState& saved) override;
  ExchangeState state(std::int64_t step, const Refusal& refusal) override;
  NamedTensors leaveEpoch() override;
  void enterEpoch(std::int64_t step, std::span<const checkpoint::TensorView> state) override;
  std::span<const Parameter> updated() const override { return {}; }
  RowSource* rows() override { return link_.get(); }
  void refresh() override { link_->refreshAll(); }

  std::int64_t awaitOthers(std::int64_t step) override;
  std::optional<ps::Statistics> statistics() override { return link_->statistics(); }
  void leave() override { link_->leave(); }

 private:
  const bool together_;  // An update is made of all workers' gradients of a step.
  std::unique_ptr<ServerLink> link_;
  ps::Stop stop_ = ps::Stop::kNo;
  std::vector<double> own_;   // This worker's numbers of the step.
  std::int64_t trained_ = 0;  // Samples of the gradients that servers have taken, as last heard.
};

std::unique_ptr<Exchange> makeServers(const Workers& workers, const ExchangeSetup& setup);

// kInvalidArgument for an optimizer that servers can't run: one that is not Colla's.
Status checkForServers(const Optimizer& optimizer);
// Colla's own optimizer; throws what checkForServers() says.
const OptimizerOptions& optimizerForServers(const Optimizer& optimizer);
// Into how many parts tables on servers are cut: as the user says, or found by measurement.
int partitionsFor(const Workers& workers, const ExchangeSetup& setup,
                  std::span<const Parameter> tables,
                  std::span<const std::vector<std::int64_t>> touched);
// A snapshot of the servers, of `step` if they have one, as a part of a checkpoint. The link must
// outlive the save.
ExchangeState snapshotOf(ServerLink& link, std::int64_t step, const Refusal& refusal);

}  // namespace colla::train
