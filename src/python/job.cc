#include "python/job.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <utility>
#include <vector>

#include "base/config.h"
#include "colla/collectives.h"
#include "colla/server.h"
#include "job/settings.h"
#include "python/bind.h"
#include "python/job_capsule.h"
#include "python/raise.h"
#include "rendezvous/secret.h"

namespace colla::python {

namespace py = pybind11;

PythonMeeting::PythonMeeting(int rank, int size, const std::string& secret, Settings settings)
    : settings_(std::move(settings)) {
  if (size < 1 || rank < 0 || rank >= size) {
    raise({StatusCode::kInvalidArgument, fmt::format("there is no rank {} of {}", rank, size)});
  }
  if (!secret.empty() && secret.size() < rendezvous::kSecretBytes) {
    raise({StatusCode::kInvalidArgument,
           fmt::format("a secret has at least {} bytes, not {}: os.urandom(32) makes a good one",
                       rendezvous::kSecretBytes, secret.size())});
  }
  guest_ = {.rank = rank, .size = size, .secretHex = rendezvous::secretToHex(secret)};
}

std::string PythonMeeting::invite(const std::vector<std::string>& introductions) {
  const Config config = valueOrRaise(job::loadConfig(settings_));
  invitation_ = job::invite(config, guest_, introductions);
  return invitation_.text;
}

void PythonMeeting::accept(const std::string& invitation) {
  const Config config = valueOrRaise(job::loadConfig(settings_));
  invitation_.text = invitation;
  auto accepted = valueOrRaise(job::accept(config, guest_, std::exchange(invitation_, {})));
  meeting_ = std::make_unique<job::Meeting>(std::move(accepted));
}

job::Meeting PythonMeeting::take() {
  if (meeting_ == nullptr) {
    raise({StatusCode::kInvalidArgument, "a meeting leads to one job, once it was accepted"});
  }
  return std::move(*std::exchange(meeting_, nullptr));
}

PythonJob::PythonJob(const Settings& settings, const std::string& torchVersion,
                     PythonMeeting* meeting) {
  const JobOptions options{.torchVersion = torchVersion, .settings = settings, .serves = true};
  std::unique_ptr<job::Meeting> taken;
  if (meeting != nullptr) taken = std::make_unique<job::Meeting>(meeting->take());
  Status status;
  {
    py::gil_scoped_release unlocked;
    status = open(options, std::move(taken));
  }
  if (!status.ok()) raise(status);
}

PythonJob::~PythonJob() { close(); }

void PythonJob::close() {
  py::gil_scoped_release unlocked;
  job_.reset();
}

const std::shared_ptr<Job>& PythonJob::job() const {
  if (job_ == nullptr) raise({StatusCode::kInvalidArgument, "this process has left the job"});
  return job_;
}

Status PythonJob::open(const JobOptions& options, std::unique_ptr<job::Meeting> meeting) {
  COLLA_TRY_ASSIGN(
      job_, meeting == nullptr ? Job::init(options) : Job::init(options, std::move(*meeting)));
  if (job_->role() == Role::kServer) return {};
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

namespace {

void serveWorkers(PythonJob& self) {
  Status status;
  {
    const auto job = self.job();
    py::gil_scoped_release unlocked;
    status = serve(*job);
  }
  if (!status.ok()) raise(status);
}

// For colla._torch, whose pybind11 does not know the types of this one.
py::capsule handleOf(const PythonJob& self) {
  return py::capsule(new std::shared_ptr<Job>(self.job()), kJobCapsule, [](PyObject* capsule) {
    delete static_cast<std::shared_ptr<Job>*>(PyCapsule_GetPointer(capsule, kJobCapsule));
  });
}

}  // namespace

void bindJob(py::module_& module) {
  py::class_<PythonMeeting>(module, "Meeting", py::module_local())
      .def(py::init([](int rank, int size, const py::bytes& secret, Settings settings) {
             return std::make_unique<PythonMeeting>(rank, size, secret, std::move(settings));
           }),
           py::arg("rank"), py::arg("size"), py::arg("secret") = py::bytes(),
           py::arg("settings") = Settings())
      .def_property_readonly("introduction",
                             [](const PythonMeeting&) { return job::introduction(); })
      .def("invite", &PythonMeeting::invite, py::arg("introductions"))
      .def("accept", &PythonMeeting::accept, py::arg("invitation"));

  const auto number = [](int (Job::*get)() const) {
    return [get](const PythonJob& self) { return (*self.job().*get)(); };
  };
  py::class_<PythonJob>(module, "Job", py::module_local())
      .def(py::init<const Settings&, const std::string&, PythonMeeting*>(),
           py::arg("settings") = Settings(), py::arg("torch_version") = "",
           py::arg("meeting") = py::none())
      .def("close", &PythonJob::close)
      .def_property_readonly("handle", &handleOf)
      .def_property_readonly("is_server", &PythonJob::isServer)
      .def_property_readonly("rank", number(&Job::rank))
      .def_property_readonly("size", number(&Job::size))
      .def_property_readonly("local_rank", number(&Job::localRank))
      .def_property_readonly("local_size", number(&Job::localSize))
      .def_property_readonly("servers", number(&Job::servers))
      .def_property_readonly("cross_rank", &PythonJob::crossRank)
      .def_property_readonly("cross_size", &PythonJob::crossSize)
      .def_property_readonly("is_homogeneous", &PythonJob::isHomogeneous)
      .def("serve", &serveWorkers, "What a server does: returns when every worker has left.");
}

}  // namespace colla::python
