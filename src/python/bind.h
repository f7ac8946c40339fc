// The parts of colla._core, each in a file of its own.
#pragma once

#include <pybind11/pybind11.h>

namespace colla::python {

// The backend of torch.distributed: create_process_group.
void bindC10d(pybind11::module_& module);
// Checkpoints of torch tensors: Manifest, save_checkpoint, load_checkpoint.
void bindCheckpoint(pybind11::module_& module);
// A process's place: Job, serve.
void bindJob(pybind11::module_& module);
// Named collectives on torch tensors: Exchange.
void bindNamed(pybind11::module_& module);
// A worker's end of the parameter servers: Servers.
void bindServers(pybind11::module_& module);

}  // namespace colla::python
