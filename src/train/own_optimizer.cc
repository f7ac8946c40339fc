#include "colla/own_optimizer.h"

#include "colla/error.h"
#include "train/torch_state.h"

namespace colla {
namespace {

class TorchAsOwn final : public OwnOptimizer {
 public:
  TorchAsOwn(std::unique_ptr<torch::optim::Optimizer> optimizer, NamedTensors parameters)
      : optimizer_(std::move(optimizer)), parameters_(std::move(parameters)) {
    if (dynamic_cast<const torch::optim::LBFGS*>(optimizer_.get()) != nullptr) {
      throw Error(StatusCode::kUnsupported,
                  "torch::optim::LBFGS computes the loss again in each step, by a closure, and "
                  "there is none here: choose another optimizer");
    }
    for (auto& group : optimizer_->param_groups()) rates_.push_back(group.options().get_lr());
  }

  void step() override { optimizer_->step(); }
  NamedTensors state() const override { return train::readState(*optimizer_, parameters_); }
  void restore(const NamedTensors& state) override {
    try {
      train::writeState(*optimizer_, parameters_, state);
    } catch (const c10::Error& error) {
      const std::string text = error.what_without_backtrace();
      throw Error(StatusCode::kMismatch, "the optimizer's state in the checkpoint does not fit: " +
                                             text.substr(0, text.find('\n')));
    }
  }
  void setLearningRate(double factor) override {
    for (std::size_t group = 0; group < rates_.size(); ++group) {
      optimizer_->param_groups()[group].options().set_lr(rates_[group] * factor);
    }
  }

 private:
  const std::unique_ptr<torch::optim::Optimizer> optimizer_;
  const NamedTensors parameters_;
  std::vector<double> rates_;  // Of each group, before the schedule.
};

}  // namespace

std::unique_ptr<OwnOptimizer> asOwnOptimizer(std::unique_ptr<torch::optim::Optimizer> optimizer,
                                             NamedTensors parameters) {
  return std::make_unique<TorchAsOwn>(std::move(optimizer), std::move(parameters));
}

}  // namespace colla
