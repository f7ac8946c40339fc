// Python's end of local SGD: averages parameters that torch's own optimizer has changed.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <string>

#include "colla/strategy_options.h"
#include "python_torch/bind.h"
#include "python_torch/job_of.h"
#include "python_torch/workers_of.h"
#include "train/exchange/parameter_average.h"
#include "train/metrics.h"

namespace colla::python_torch {
namespace {

namespace py = pybind11;
using Tensors = std::vector<torch::Tensor>;

LocalSgdOptions optionsOf(std::int64_t every, double outerRate, double outerMomentum) {
  const LocalSgdOptions options{
      .every = every, .outerRate = outerRate, .outerMomentum = outerMomentum};
  const Status status = validate(options);
  if (status.ok()) return options;
  // The flag's name is the field's, but for its dashes.
  std::string text(status.message());
  std::replace(text.begin(), std::ranges::find(text, ' '), '-', '_');
  throw py::value_error(text);
}

class PythonAverage {
 public:
  // `tables` are the names of the parameters of which touch() says what changes.
  PythonAverage(const py::object& job, const std::vector<std::string>& names,
                const Tensors& parameters, const std::vector<std::string>& tables,
                const LocalSgdOptions& options, std::shared_ptr<train::TrainMetrics> metrics)
      : job_(jobOf(job)), metrics_(std::move(metrics)) {
    std::vector<train::Parameter> named;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      named.push_back({names.at(i), parameters[i]});
    }
    runUnlocked([&] {
      average_ = std::make_unique<train::ParameterAverage>(workersOf(*job_), std::move(named),
                                                           tables, std::vector<train::Parameter>(),
                                                           options, metrics_.get());
    });
  }

  void touch(int parameter, const torch::Tensor& rows) {
    runUnlocked([&] { average_->touch(parameter, rows); });
  }
  Tensors momenta() const { return average_->momenta(); }
  Tensors start() const { return average_->start(); }
  void average() {
    runUnlocked([&] { average_->average(/*share=*/1.0 / job_->size(), ps::Stop::kNo); });
  }

 private:
  const std::shared_ptr<Job> job_;  // Both outlive the average.
  const std::shared_ptr<train::TrainMetrics> metrics_;
  std::unique_ptr<train::ParameterAverage> average_;
};

}  // namespace

void bindAverage(py::module_& module) {
  const LocalSgdOptions plain;
  py::class_<LocalSgdOptions>(module, "LocalSgd")
      .def(py::init(&optionsOf), py::arg("every") = plain.every,
           py::arg("outer_lr") = plain.outerRate, py::arg("outer_momentum") = plain.outerMomentum)
      .def_readonly("every", &LocalSgdOptions::every)
      .def_readonly("outer_lr", &LocalSgdOptions::outerRate)
      .def_readonly("outer_momentum", &LocalSgdOptions::outerMomentum);
  py::class_<PythonAverage>(module, "ParameterAverage")
      .def(py::init<const py::object&, const std::vector<std::string>&, const Tensors&,
                    const std::vector<std::string>&, const LocalSgdOptions&,
                    std::shared_ptr<train::TrainMetrics>>(),
           py::arg("job"), py::arg("names"), py::arg("parameters"), py::arg("tables"),
           py::arg("options"), py::arg("metrics"))
      .def("touch", &PythonAverage::touch, py::arg("parameter"), py::arg("rows"))
      .def("momenta", &PythonAverage::momenta)
      .def("start", &PythonAverage::start)
      .def("average", &PythonAverage::average);
}

}  // namespace colla::python_torch
