// The parts of the module colla._core, one file each.
#pragma once

#include <pybind11/pybind11.h>

namespace colla::python {

// c10d.cc: the backend of torch.distributed.
void bindC10d(pybind11::module_& module);

}  // namespace colla::python
