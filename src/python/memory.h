// The memory of an array of any framework: PyTorch, NumPy, TensorFlow, or plain Python.
//
// The array lends it through DLPack (dlpack.h) or the buffer protocol. Nothing is copied.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "colla/data_type.h"
#include "colla/status.h"

namespace colla::python {

struct ArrayMemory {
  pybind11::object keep;  // What keeps the memory alive.
  DataType type = DataType::kFloat32;
  std::vector<std::int64_t> shape = {};
  std::span<std::byte> bytes = {};
};

enum class Access { kRead, kWrite };

// kInvalidArgument, with `what`, for an array that is on a device, has gaps or has a type that
// Colla does not move, for one that must not be written if `access` is kWrite, and for an object
// that is no array. Throws the exception that the framework raises, if any. Needs Python's lock.
Result<ArrayMemory> memoryOf(pybind11::handle array, const std::string& what, Access access);

}  // namespace colla::python
