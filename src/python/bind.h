// The parts of colla._core, each in a file of its own.
#pragma once

#include <pybind11/pybind11.h>

namespace colla::python {

// Checkpoints of torch tensors: Manifest, save_checkpoint, load_checkpoint.
void bindCheckpoint(pybind11::module_& module);
// Jobs and named collectives on torch tensors: Job, Exchange.
void bindNamed(pybind11::module_& module);

}  // namespace colla::python
