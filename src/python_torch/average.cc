// Python's end of local SGD: averages parameters that torch's own optimizer has changed.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/torch.h>

#include <memory>

#include "python_torch/bind.h"
#include "python_torch/job_of.h"
#include "train/exchange/parameter_average.h"

namespace colla::python_torch {
namespace {

namespace py = pybind11;
using Tensors = std::vector<torch::Tensor>;

// Each rank is one slice, as in Horovod's API.
class PythonAverage {
 public:
  // `tables` are the names of the parameters of which touch() says what changes.
  PythonAverage(const py::object& job, const std::vector<std::string>& names,
                const Tensors& parameters, const std::vector<std::string>& tables, double outerRate,
                double outerMomentum)
      : job_(jobOf(job)) {
    std::vector<train::Parameter> named;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      named.push_back({names.at(i), parameters[i]});
    }
    runUnlocked([&] {
      const SliceMap map = valueOrThrow(SliceMap::even(job_->size(), job_->size()));
      average_ = std::make_unique<train::ParameterAverage>(
          train::Workers{*job_, job_->world(), map}, std::move(named), tables,
          std::vector<train::Parameter>(),
          LocalSgdOptions{.outerRate = outerRate, .outerMomentum = outerMomentum});
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
  const std::shared_ptr<Job> job_;  // Outlives the average.
  std::unique_ptr<train::ParameterAverage> average_;
};

}  // namespace

void bindAverage(py::module_& module) {
  py::class_<PythonAverage>(module, "ParameterAverage")
      .def(py::init<const py::object&, const std::vector<std::string>&, const Tensors&,
                    const std::vector<std::string>&, double, double>(),
           py::arg("job"), py::arg("names"), py::arg("parameters"), py::arg("tables"),
           py::arg("outer_lr"), py::arg("outer_momentum"))
      .def("touch", &PythonAverage::touch, py::arg("parameter"), py::arg("rows"))
      .def("momenta", &PythonAverage::momenta)
      .def("start", &PythonAverage::start)
      .def("average", &PythonAverage::average);
}

}  // namespace colla::python_torch
