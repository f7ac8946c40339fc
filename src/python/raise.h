// A Status as the exception that Horovod's users expect.
#pragma once

#include <pybind11/pybind11.h>

#include "colla/status.h"

namespace colla::python {

// ValueError for what the caller got wrong, FileNotFoundError and OSError for files,
// NotImplementedError (a RuntimeError) for what there is not, colla.exceptions.HorovodInternalError
// (a RuntimeError) for the rest. Needs Python's lock.
[[noreturn]] void raise(const Status& status);
// What became of an operation that was under way: ValueError for wrong arguments,
// HorovodInternalError for every other reason.
[[noreturn]] void raiseOutcome(const Status& status);

// The value, or raises.
template <typename T>
T valueOrRaise(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return *std::move(result);
}

}  // namespace colla::python
