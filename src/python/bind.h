// The parts of colla._core, each in a file of its own.
#pragma once

#include <pybind11/pybind11.h>

namespace colla::python {

// Jobs and named collectives on torch tensors: Job, Exchange.
void bindNamed(pybind11::module_& module);

}  // namespace colla::python
