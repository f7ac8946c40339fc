// What Python's optimizers count: the same as the Trainer (train/metrics.h).
#include "train/metrics.h"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "python_torch/bind.h"

namespace colla::python_torch {
namespace {

namespace py = pybind11;

// Python's time.monotonic() reads the same clock.
TimePoint timePoint(double seconds) {
  return TimePoint(
      std::chrono::duration_cast<TimePoint::duration>(std::chrono::duration<double>(seconds)));
}

}  // namespace

void bindMetrics(py::module_& module) {
  py::class_<train::TrainMetrics, std::shared_ptr<train::TrainMetrics>>(module, "TrainMetrics")
      .def(py::init<>())
      .def("backward_ended",
           [](train::TrainMetrics& self) { self.backwardEnded(std::chrono::steady_clock::now()); })
      .def(
          "exchanged",
          [](train::TrainMetrics& self, std::size_t bytes, double began, double ended) {
            self.exchanged(bytes, timePoint(began), timePoint(std::max(began, ended)));
          },
          py::arg("bytes"), py::arg("began"), py::arg("ended"))
      .def(
          "step_ended",
          [](train::TrainMetrics& self, double took) {
            self.stepEnded(0, std::chrono::duration_cast<std::chrono::nanoseconds>(
                                  std::chrono::duration<double>(took)));
          },
          py::arg("took"))
      .def("count_samples", &train::TrainMetrics::countSamples, py::arg("samples"));
}

}  // namespace colla::python_torch
