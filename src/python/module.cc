// colla._core: what the Python package needs of the C++ side. Python code imports `colla` and
// `colla.torch`, which wrap it; nothing here is public.
#include <pybind11/pybind11.h>
#include <torch/version.h>

#include "base/version.h"
#include "python/bind.h"

PYBIND11_MODULE(_core, module) {
  module.attr("version") = colla::version();
  // Types of torch are handed over as they are in memory: another version has others.
  module.attr("torch_version") = TORCH_VERSION;
  colla::python::bindC10d(module);
  colla::python::bindCheckpoint(module);
  colla::python::bindJob(module);
  colla::python::bindNamed(module);
  colla::python::bindServers(module);
}
