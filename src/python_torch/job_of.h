// From a colla._core.Job to the Job behind it, and from what C++ throws to what Python raises.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "colla/error.h"
#include "colla/job.h"
#include "python/job_capsule.h"
#include "python/raise.h"

namespace colla::python_torch {

inline std::shared_ptr<Job> jobOf(const pybind11::object& job) {
  const pybind11::capsule handle = job.attr("handle");
  return *static_cast<std::shared_ptr<Job>*>(
      PyCapsule_GetPointer(handle.ptr(), python::kJobCapsule));
}

// Runs `action` without the interpreter's lock; a colla::Error that it throws is raised in Python.
template <typename Action>
void runUnlocked(const Action& action) {
  Status status;
  {
    const pybind11::gil_scoped_release unlocked;
    try {
      action();
    } catch (const Error& error) {
      status = error.status();
    }
  }
  if (!status.ok()) python::raise(status);
}

}  // namespace colla::python_torch
