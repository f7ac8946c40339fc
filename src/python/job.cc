#include "python/job.h"

#include <pybind11/stl.h>
#include <torch/version.h>

#include <vector>

#include "colla/collectives.h"
#include "colla/server.h"
#include "python/bind.h"
#include "python/raise.h"

namespace colla::python {

namespace py = pybind11;

PythonJob::PythonJob(const Settings& settings) {
  Status status;
  {
    py::gil_scoped_release unlocked;
    status = open(settings);
  }
  if (!status.ok()) raise(status);
}

PythonJob::~PythonJob() {
  py::gil_scoped_release unlocked;
  job_.reset();
}

Status PythonJob::open(const Settings& settings) {
  COLLA_TRY_ASSIGN(
      job_, Job::init({.torchVersion = TORCH_VERSION, .settings = settings, .serves = true}));
  if (isServer()) return {};
  std::vector<std::int64_t> mine = {job_->localRank(), job_->localSize()};
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(job_->size()));
  COLLA_TRY(allgather(job_->world(), ConstBuffer(mine), Buffer(all)));
  for (std::size_t rank = 0; rank < all.size() / 2; ++rank) {
    isHomogeneous_ = isHomogeneous_ && all[2 * rank + 1] == mine[1];
    if (all[2 * rank] != mine[0]) continue;
    crossRank_ += rank < static_cast<std::size_t>(job_->rank()) ? 1 : 0;
    ++crossSize_;
  }
  return {};
}

void bindJob(py::module_& module) {
  const auto number = [](int (Job::*get)() const) {
    return [get](PythonJob& self) { return (self.job().*get)(); };
  };
  py::class_<PythonJob>(module, "Job")
      .def(py::init<const Settings&>(), py::arg("settings") = Settings())
      .def_property_readonly("is_server", &PythonJob::isServer)
      .def_property_readonly("rank", number(&Job::rank))
      .def_property_readonly("size", number(&Job::size))
      .def_property_readonly("local_rank", number(&Job::localRank))
      .def_property_readonly("local_size", number(&Job::localSize))
      .def_property_readonly("servers", number(&Job::servers))
      .def_property_readonly("cross_rank", &PythonJob::crossRank)
      .def_property_readonly("cross_size", &PythonJob::crossSize)
      .def_property_readonly("is_homogeneous", &PythonJob::isHomogeneous)
      .def(
          "serve",
          [](PythonJob& self) {
            Status status;
            {
              py::gil_scoped_release unlocked;
              status = serve(self.job());
            }
            if (!status.ok()) raise(status);
          },
          "What a server does: returns when every worker has left.");
}

}  // namespace colla::python
