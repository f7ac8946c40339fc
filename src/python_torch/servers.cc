// Python's end of the parameter servers: a step at a time, gradients given by hand.
#include <fmt/format.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/torch.h>

#include "colla/error.h"
#include "colla/slices.h"
#include "optim/update_rule.h"
#include "python_torch/bind.h"
#include "python_torch/job_of.h"
#include "python_torch/workers_of.h"
#include "train/exchange/server_link.h"
#include "train/run_plan.h"
#include "train/torch_state.h"

namespace colla::python_torch {
namespace {

namespace py = pybind11;
using python::raise;
using python::valueOrRaise;
using Tensors = std::vector<torch::Tensor>;

struct Choice {
  std::string strategy;
  std::string optimizer;  // As toString(OptimizerOptions) writes it.
  int backup = 0;
  std::optional<std::int64_t> maxStaleness;
  std::int64_t staleness = 0;
  int partitions = 0;
};

Result<ps::PolicyOptions> policyOf(const Choice& choice, int workers) {
  const auto strategy = parseStrategy(choice.strategy);
  if (!strategy.ok() || !hasServers(*strategy)) {
    return {
        StatusCode::kInvalidArgument,
        fmt::format("strategy \"{}\" has no servers: use {}", choice.strategy,
                    strategyNames([](const StrategyTraits& traits) { return traits.servers; }))};
  }
  ServerOptions servers;
  servers.backup = choice.backup;
  servers.maxStaleness = choice.maxStaleness;
  servers.staleness = choice.staleness;
  return train::policyOf(*strategy, servers, workers);
}

// What the optimizer keeps for each parameter beside the count of its steps, and what that starts
// as.
std::vector<std::pair<std::string, double>> slotsOf(const Choice& choice) {
  const auto rule =
      valueOrRaise(optim::UpdateRule::make(valueOrRaise(parseOptimizer(choice.optimizer))));
  std::vector<std::pair<std::string, double>> slots;
  for (const optim::Slot& slot : rule.slots()) slots.emplace_back(slot.name, slot.initial);
  return slots;
}

std::vector<train::Parameter> named(const std::vector<std::string>& names, const Tensors& tensors,
                                    std::size_t first) {
  std::vector<train::Parameter> parameters;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    parameters.push_back({names.at(first + i), tensors[i]});
  }
  return parameters;
}

// One backward pass of each worker is one slice.
class PythonServers {
 public:
  // `names` are of `parameters`, then of `tables`; gradients are given by those numbers. `state` is
  // that of an optimizer that goes on, all of it, sorted by name, or empty; rank 0's counts.
  PythonServers(const py::object& job, const std::vector<std::string>& names,
                const Tensors& parameters, const Tensors& tables, const Choice& choice,
                const train::NamedTensors& state, std::shared_ptr<train::TrainMetrics> metrics)
      : shared_(jobOf(job)), job_(*shared_), metrics_(std::move(metrics)), parameters_(parameters) {
    if (job_.servers() == 0) {
      raise({StatusCode::kInvalidArgument,
             fmt::format("strategy \"{}\" needs parameter servers: start the job with colla run "
                         "--ps 1",
                         choice.strategy)});
    }
    train::ServerLink::Tensors tensors;
    tensors.parameters = named(names, parameters, 0);
    tensors.tables = named(names, tables, parameters.size());
    for (std::size_t i = 0; i < names.size(); ++i) tensors.orders.push_back(static_cast<int>(i));
    const train::ServerPlan plan{.optimizer = valueOrRaise(parseOptimizer(choice.optimizer)),
                                 .policy = valueOrRaise(policyOf(choice, job_.size())),
                                 .partitions = choice.partitions,
                                 .hooks = false,
                                 .metrics = metrics_.get()};
    runUnlocked([&] {
      servers_ = std::make_unique<train::ServerLink>(workersOf(job_), std::move(tensors), plan);
      servers_->start(0, train::viewsOf(state));
      servers_->beginSlice(job_.rank());
    });
  }

  ~PythonServers() { moveOut(); }
  PythonServers(const PythonServers&) = delete;
  PythonServers& operator=(const PythonServers&) = delete;

  void give(int number, const torch::Tensor& gradient) {
    runUnlocked([&] { servers_->give(number, gradient); });
  }

  // For those who wait for something else before they call step().
  void backwardEnded() { servers_->backwardEnded(); }
  // Ends the step; the next parameters are in place. Whether the servers took the gradients.
  bool step(double factor) {
    bool taken = false;
    runUnlocked([&] {
      servers_->endSlice();
      taken = !servers_->finish({.share = 1.0 / job_.size(), .factor = factor}).turn.dropped;
      servers_->beginSlice(job_.rank());
    });
    return taken;
  }

  void refresh(const torch::Tensor& table, const torch::Tensor& rows) {
    runUnlocked([&] { servers_->refresh(table, rows); });
  }
  void refreshAll() {
    runUnlocked([&] { servers_->refreshAll(); });
  }

  // What the servers hold at one step: parameters, and the optimizer's state. For rank 0.
  std::pair<train::NamedTensors, train::NamedTensors> snapshot() {
    std::pair<train::NamedTensors, train::NamedTensors> tensors;
    runUnlocked([&] {
      servers_->takeSnapshot();
      const auto copy = valueOrThrow(servers_->readSnapshot());
      tensors = {train::tensorsOf(copy->parameters), train::tensorsOf(copy->optimizer)};
    });
    return tensors;
  }

  // Says good-bye; the servers wait for other parameters (`again`), or end.
  void leave(bool again) {
    runUnlocked([&] { servers_->leave(again); });
    moveOut();
  }

  // Models outlive their servers, whose memory the parameters are in.
  void moveOut() {
    const torch::NoGradGuard noGrad;
    for (torch::Tensor& parameter : parameters_) parameter.set_data(parameter.detach().clone());
    parameters_.clear();
  }

 private:
  std::shared_ptr<Job> shared_;  // Outlives the servers.
  Job& job_;
  const std::shared_ptr<train::TrainMetrics> metrics_;  // Outlives them, too.
  Tensors parameters_;
  std::unique_ptr<train::ServerLink> servers_;
};

}  // namespace

void bindServers(py::module_& module) {
  py::class_<Choice>(module, "ServerChoice")
      .def(
          py::init<std::string, std::string, int, std::optional<std::int64_t>, std::int64_t, int>(),
          py::arg("strategy"), py::arg("optimizer"), py::arg("backup") = 0,
          py::arg("max_staleness") = py::none(), py::arg("staleness") = 0,
          py::arg("partitions") = 0)
      .def("slots", &slotsOf);
  py::class_<PythonServers>(module, "Servers")
      .def(py::init<const py::object&, const std::vector<std::string>&, const Tensors&,
                    const Tensors&, const Choice&, const train::NamedTensors&,
                    std::shared_ptr<train::TrainMetrics>>(),
           py::arg("job"), py::arg("names"), py::arg("parameters"), py::arg("tables"),
           py::arg("choice"), py::arg("state"), py::arg("metrics"))
      .def("give", &PythonServers::give, py::arg("number"), py::arg("gradient"))
      .def("backward_ended", &PythonServers::backwardEnded)
      .def("step", &PythonServers::step, py::arg("factor") = 1.0)
      .def("refresh", &PythonServers::refresh, py::arg("table"), py::arg("rows"))
      .def("refresh_all", &PythonServers::refreshAll)
      .def("snapshot", &PythonServers::snapshot)
      .def("move_out", &PythonServers::moveOut)
      .def("leave", &PythonServers::leave, py::arg("again") = false);
}

}  // namespace colla::python_torch
