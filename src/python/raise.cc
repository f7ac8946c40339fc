#include "python/raise.h"

#include <string>

namespace colla::python {
namespace {

[[noreturn]] void raiseAs(PyObject* type, const Status& status) {
  PyErr_SetString(type, std::string(status.message()).c_str());
  throw pybind11::error_already_set();
}

[[noreturn]] void raiseInternal(const Status& status) {
  const auto type = pybind11::module_::import("colla.exceptions").attr("HorovodInternalError");
  PyErr_SetString(type.ptr(), toString(status).c_str());
  throw pybind11::error_already_set();
}

}  // namespace

void raise(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
      raiseAs(PyExc_ValueError, status);
    case StatusCode::kNotFound:
      raiseAs(PyExc_FileNotFoundError, status);
    case StatusCode::kIo:
      raiseAs(PyExc_OSError, status);
    case StatusCode::kUnsupported:
      raiseAs(PyExc_NotImplementedError, status);
    default:
      raiseInternal(status);
  }
}

void raiseOutcome(const Status& status) {
  if (status.code() == StatusCode::kInvalidArgument) raiseAs(PyExc_ValueError, status);
  raiseInternal(status);
}

}  // namespace colla::python
