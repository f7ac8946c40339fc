// Python's end of checkpoints: the files are those that C++ programs write and read.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/torch.h>

#include "checkpoint/directory.h"
#include "checkpoint/source.h"
#include "colla/error.h"
#include "python/bind.h"
#include "python/raise.h"
#include "train/torch_state.h"

namespace colla::python {
namespace {

namespace py = pybind11;
using checkpoint::Manifest;
using train::NamedTensors;

std::string save(const std::string& path, Manifest manifest, const NamedTensors& parameters,
                 const NamedTensors& buffers, const NamedTensors& optimizer, int keep) {
  manifest.torchVersion = TORCH_VERSION;
  const auto write = [&]() -> Result<std::string> {
    const py::gil_scoped_release unlocked;
    try {
      const auto parameterViews = train::viewsOf(parameters);
      const auto bufferViews = train::viewsOf(buffers);
      const auto optimizerViews = train::viewsOf(optimizer);
      checkpoint::Directory directory(path);
      COLLA_TRY_ASSIGN(const checkpoint::Saved saved,
                       directory.save(manifest, {.parameters = parameterViews,
                                                 .buffers = bufferViews,
                                                 .optimizer = optimizerViews}));
      if (keep > 0) COLLA_TRY(directory.prune(keep, saved.step));
      return saved.path;
    } catch (const Error& error) {
      return {StatusCode::kInvalidArgument, std::string(error.status().message())};
    }
  };
  return valueOrRaise(write());
}

struct Checkpoint {
  Manifest manifest;
  NamedTensors model;
  NamedTensors optimizer;
};

Checkpoint load(const std::string& path) {
  const auto read = [&]() -> Result<Checkpoint> {
    const py::gil_scoped_release unlocked;
    COLLA_TRY_ASSIGN(const checkpoint::Source source, checkpoint::Source::open(path));
    const checkpoint::Loaded* loaded = source.checkpoint();
    if (loaded == nullptr) {
      return {StatusCode::kInvalidArgument,
              path + " is a single file, without the manifest that a checkpoint has"};
    }
    return Checkpoint{.manifest = loaded->manifest(),
                      .model = train::tensorsOf(loaded->model()),
                      .optimizer = train::tensorsOf(loaded->optimizer())};
  };
  return valueOrRaise(read());
}

}  // namespace

void bindCheckpoint(py::module_& module) {
  py::class_<Manifest>(module, "Manifest")
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
      .def_readwrite("extra", &Manifest::extra);
  py::class_<Checkpoint>(module, "Checkpoint")
      .def_readonly("manifest", &Checkpoint::manifest)
      .def_readonly("model", &Checkpoint::model)
      .def_readonly("optimizer", &Checkpoint::optimizer);
  module.def("save_checkpoint", &save, py::arg("path"), py::arg("manifest"), py::arg("parameters"),
             py::arg("buffers"), py::arg("optimizer"), py::arg("keep"));
  module.def("load_checkpoint", &load, py::arg("path"));
}

}  // namespace colla::python
