// colla._core: what the Python package needs of the C++ side and what needs no framework. Python
// code imports `colla` and `colla.torch`, which wrap it; nothing here is public.
#include <pybind11/pybind11.h>

#include "base/version.h"
#include "python/bind.h"

PYBIND11_MODULE(_core, module) {
  module.attr("version") = colla::version();
  colla::python::bindArray(module);
  colla::python::bindCheckpoint(module);
  colla::python::bindJob(module);
  colla::python::bindNamed(module);
  colla::python::bindRecords(module);
  colla::python::bindServers(module);
  colla::python::bindStrategy(module);
}
