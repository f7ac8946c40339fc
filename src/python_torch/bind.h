// The parts of colla._torch, each in a file of its own.
#pragma once

#include <pybind11/pybind11.h>

namespace colla::python_torch {

// The backend of torch.distributed: create_process_group, leave_process_group.
void bindC10d(pybind11::module_& module);
// A worker's end of the parameter servers: ServerChoice, Servers.
void bindServers(pybind11::module_& module);
// Local SGD: LocalSgd, ParameterAverage.
void bindAverage(pybind11::module_& module);
// What optimizers count: TrainMetrics. Comes before the others, which take it.
void bindMetrics(pybind11::module_& module);

}  // namespace colla::python_torch
