#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "c10d/process_group.h"
#include "python_torch/bind.h"

namespace colla::python_torch {
namespace {

namespace py = pybind11;

// Ends without Python's lock: what is under way may want it, in callbacks.
class PythonProcessGroup final : public c10d::ProcessGroup {
 public:
  // PyTorch's own C++ asks for futures too, without Python's lock, but attaches no collectives.
  PythonProcessGroup(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size,
                     std::chrono::milliseconds timeout)
      : ProcessGroup(store, rank, size, timeout, [] { return PyGILState_Check() == 1; }) {}
  ~PythonProcessGroup() override {
    if (PyGILState_Check() == 0) return;
    const py::gil_scoped_release released;
    shutdown();
  }

 private:
  c10::intrusive_ptr<Backend> makeGroup(const c10::intrusive_ptr<::c10d::Store>& store, int rank,
                                        int size,
                                        std::chrono::milliseconds timeout) const override {
    return c10::make_intrusive<PythonProcessGroup>(store, rank, size, timeout);
  }
};

}  // namespace

void bindC10d(py::module_& module) {
  // Types of torch.distributed have to be known first.
  py::module_::import("torch.distributed");
  module.def(
      "create_process_group",
      [](const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size,
         std::chrono::milliseconds timeout) -> c10::intrusive_ptr<::c10d::Backend> {
        return c10::make_intrusive<PythonProcessGroup>(store, rank, size, timeout);
      },
      py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"),
      py::call_guard<py::gil_scoped_release>());
  module.def(
      "leave_process_group",
      [](const c10::intrusive_ptr<::c10d::Backend>& group, std::chrono::milliseconds grace) {
        if (auto* ours = dynamic_cast<c10d::ProcessGroup*>(group.get())) ours->leave(grace);
      },
      py::arg("group"), py::arg("grace"), py::call_guard<py::gil_scoped_release>());
}

}  // namespace colla::python_torch
