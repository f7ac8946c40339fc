// The parts of colla._core, each in a file of its own.
#pragma once

#include <pybind11/pybind11.h>

namespace colla::python {

// Arrays that Colla made: Array.
void bindArray(pybind11::module_& module);
// Checkpoints: Manifest, save_checkpoint, load_checkpoint.
void bindCheckpoint(pybind11::module_& module);
// A process's place: Meeting, Job.
void bindJob(pybind11::module_& module);
// Named collectives: Exchange.
void bindNamed(pybind11::module_& module);
// TFRecord files and tf.Examples: RecordReader, write_records, encode_example, decode_example.
void bindRecords(pybind11::module_& module);
// A worker's end of the parameter servers: ServerChoice, Servers.
void bindServers(pybind11::module_& module);
// The table of strategies: StrategyTraits, strategies.
void bindStrategy(pybind11::module_& module);

}  // namespace colla::python
