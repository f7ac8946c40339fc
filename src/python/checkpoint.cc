// Python's end of checkpoints: the files are those that C++ programs write and read.
#include <pybind11/stl.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/directory.h"
#include "checkpoint/source.h"
#include "colla/array.h"
#include "python/bind.h"
#include "python/memory.h"
#include "python/raise.h"

namespace colla::python {
namespace {

namespace py = pybind11;
using checkpoint::Manifest;
using checkpoint::TensorView;
using NamedArrays = std::vector<std::pair<std::string, py::object>>;

// Arrays as a checkpoint sees them.
struct Views {
  explicit Views(const NamedArrays& arrays) {
    for (const auto& [name, array] : arrays) {
      memory.push_back(valueOrRaise(memoryOf(array, name, Access::kRead)));
      const ArrayMemory& lent = memory.back();
      tensors.push_back({name, lent.type, lent.shape, lent.bytes});
    }
  }

  std::vector<ArrayMemory> memory;
  std::vector<TensorView> tensors;
};

std::string save(const std::string& path, const Manifest& manifest, const NamedArrays& parameters,
                 const NamedArrays& buffers, const NamedArrays& optimizer, int keep) {
  const Views parameterViews(parameters);
  const Views bufferViews(buffers);
  const Views optimizerViews(optimizer);
  const auto write = [&]() -> Result<std::string> {
    const py::gil_scoped_release unlocked;
    checkpoint::Directory directory(path);
    COLLA_TRY_ASSIGN(const checkpoint::Saved saved,
                     directory.save(manifest, {.parameters = parameterViews.tensors,
                                               .buffers = bufferViews.tensors,
                                               .optimizer = optimizerViews.tensors}));
    if (keep > 0) COLLA_TRY(directory.prune(keep, saved.step));
    return saved.path;
  };
  return valueOrRaise(write());
}

struct Checkpoint {
  Manifest manifest;
  std::vector<std::pair<std::string, Array>> model;
  std::vector<std::pair<std::string, Array>> optimizer;
};

// Copies, which outlive the file.
Result<std::vector<std::pair<std::string, Array>>> arraysOf(std::span<const TensorView> tensors) {
  std::vector<std::pair<std::string, Array>> arrays;
  for (const TensorView& tensor : tensors) {
    COLLA_TRY_ASSIGN(Array array, Array::allocate(tensor.type, tensor.shape));
    std::ranges::copy(tensor.bytes, array.bytes().begin());
    arrays.emplace_back(tensor.name, std::move(array));
  }
  return arrays;
}

Checkpoint load(const std::string& path) {
  const auto read = [&]() -> Result<Checkpoint> {
    const py::gil_scoped_release unlocked;
    COLLA_TRY_ASSIGN(const checkpoint::Source source, checkpoint::Source::open(path));
    const checkpoint::Loaded* loaded = source.checkpoint();
    if (loaded == nullptr) {
      return {StatusCode::kInvalidArgument,
              path + " is a single file, without the manifest that a checkpoint has"};
    }
    Checkpoint checkpoint{.manifest = loaded->manifest(), .model = {}, .optimizer = {}};
    COLLA_TRY_ASSIGN(checkpoint.model, arraysOf(loaded->model()));
    COLLA_TRY_ASSIGN(checkpoint.optimizer, arraysOf(loaded->optimizer()));
    return checkpoint;
  };
  return valueOrRaise(read());
}

}  // namespace

void bindCheckpoint(py::module_& module) {
  py::class_<Manifest>(module, "Manifest", py::module_local())
      .def(py::init<>())
      .def_readwrite("step", &Manifest::step)
      .def_readwrite("epoch", &Manifest::epoch)
      .def_readwrite("samples", &Manifest::samples)
      .def_readwrite("seed", &Manifest::seed)
      .def_readwrite("slices", &Manifest::slices)
      .def_readwrite("threads", &Manifest::threads)
      .def_readwrite("global_batch", &Manifest::globalBatch)
      .def_readwrite("model", &Manifest::model)
      .def_readwrite("optimizer", &Manifest::optimizer)
      .def_readwrite("strategy", &Manifest::strategy)
      .def_readwrite("workers", &Manifest::workers)
      .def_readwrite("torch_version", &Manifest::torchVersion)
      .def_readwrite("extra", &Manifest::extra);
  py::class_<Checkpoint>(module, "Checkpoint", py::module_local())
      .def_readonly("manifest", &Checkpoint::manifest)
      .def_readonly("model", &Checkpoint::model)
      .def_readonly("optimizer", &Checkpoint::optimizer);
  module.def("save_checkpoint", &save, py::arg("path"), py::arg("manifest"), py::arg("parameters"),
             py::arg("buffers"), py::arg("optimizer"), py::arg("keep"));
  module.def("load_checkpoint", &load, py::arg("path"));
}

}  // namespace colla::python
