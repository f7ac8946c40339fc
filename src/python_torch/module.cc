// colla._torch: what the Python package needs of the C++ side and what needs torch's types. Python
// code imports `colla.torch`, which wraps it; nothing here is public.
#include <pybind11/pybind11.h>
#include <torch/version.h>

#include "python_torch/bind.h"

PYBIND11_MODULE(_torch, module) {
  // Types of torch are handed over as they are in memory: a different version has different ones.
  module.attr("torch_version") = TORCH_VERSION;
  colla::python_torch::bindC10d(module);
  colla::python_torch::bindMetrics(module);
  colla::python_torch::bindServers(module);
  colla::python_torch::bindAverage(module);
}
