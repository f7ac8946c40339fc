// hybrid: tables with sparse gradients live on servers, allreduce sums everything else. A
// composition of the two: clipping alone needs both, because the global norm is over all gradients.
// A model without such tables is trained by allreduce alone, while the servers wait.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "train/exchange/allreduce.h"
#include "train/exchange/exchange.h"
#include "train/exchange/server_link.h"

namespace colla::train {

// What a model's parts are exchanged by.
struct HybridParts {
  ExchangeSetup dense;           // By allreduce,
  std::vector<int> denseOrders;  // with the numbers of its parameters in the model.
  ServerLink::Tensors served;    // By servers,
  ServerPlan servers;            // which do this.
};

class HybridExchange final : public Exchange {
 public:
  HybridExchange(const Workers& workers, HybridParts parts);

  void beginStep(ps::Stop stop) override;
  void beginSlice(int slice) override;
  void addBuffer(int buffer, const torch::Tensor& value, bool changed) override;
  void addNumbers(std::span<const double> numbers) override { dense_->addNumbers(numbers); }
  void endSlice() override;
  int missingSlices() const override { return dense_->missingSlices(); }
  StepResult finish(const StepEnd& end) override;

  void start(std::int64_t step, const SavedState& saved) override;
  ExchangeState state(std::int64_t step, const Refusal& refusal) override;
  NamedTensors leaveEpoch() override;
  void enterEpoch(std::int64_t step, std::span<const checkpoint::TensorView> state) override;
  std::span<const Parameter> updated() const override { return dense_->updated(); }
  RowSource* rows() override { return tables_.get(); }
  void refresh() override { tables_->refreshAll(); }
  std::int64_t awaitOthers(std::int64_t step) override;
  std::optional<ps::Statistics> statistics() override { return tables_->statistics(); }
  void leave() override { tables_->leave(); }

 private:
  const std::vector<int> denseOrders_;
  const bool clips_;
  std::unique_ptr<AllreduceExchange> dense_;
  std::unique_ptr<ServerLink> tables_;
  ps::Stop stop_ = ps::Stop::kNo;
};

std::unique_ptr<Exchange> makeHybrid(const Workers& workers, const ExchangeSetup& setup);

}  // namespace colla::train
