// Python's end of named collectives. A call from Python becomes a PendingOperation with a number,
// its handle, and stays in a table until Python asks for its outcome.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "job/settings.h"
#include "named/exchange.h"
#include "python/bind.h"
#include "python/job.h"
#include "python/memory.h"
#include "python/open_exchange.h"
#include "python/operations.h"
#include "python/raise.h"
#include "python/table.h"

namespace colla::python {
namespace {

namespace py = pybind11;
using namespace std::chrono_literals;

Result<named::Options> optionsOf(const Settings& settings) {
  COLLA_TRY_ASSIGN(const Config config, job::loadConfig(settings));
  const auto megabytes = config.integer("fusion_mb");
  const auto cycle = config.integer("cycle_us");
  if (megabytes < 0 || megabytes > 65536 || cycle < 0 || cycle > 60'000'000) {
    return {StatusCode::kInvalidArgument,
            fmt::format("fusion_mb is {} and cycle_us is {}, but they take 0 to 65536 and 0 to "
                        "60000000",
                        megabytes, cycle)};
  }
  return named::Options{.fusionBytes = static_cast<std::size_t>(megabytes) << 20,
                        .cycle = std::chrono::microseconds(cycle),
                        .stallWarning = config.seconds("stall_warning"),
                        .stallShutdown = config.seconds("stall_shutdown")};
}

class PythonExchange {
 public:
  PythonExchange(const PythonJob& job, const Settings& settings) {
    const auto options = valueOrRaise(optionsOf(settings));
    const auto created = [&, shared = job.job()] {
      py::gil_scoped_release unlocked;
      return OpenExchange::create(shared, options);
    };
    exchange_ = valueOrRaise(created());
    const std::string timeline = valueOrRaise(job::loadConfig(settings)).text("timeline");
    if (!timeline.empty()) startTimeline(timeline, /*markCycles=*/false);
  }
  ~PythonExchange() { close(); }

  // Ends what is pending; later calls are refused.
  void close() {
    py::gil_scoped_release unlocked;
    exchange_->close();
  }

  // For kernels of a framework: operations_table.h.
  py::capsule table() const { return tableOf(exchange_); }

  // `name` may be empty: see OpenExchange::namesOf(). `results` are arrays for the results, whose
  // shapes the caller knows then, or none.
  Operations::Handle submit(named::Kind kind, const std::string& name, const py::list& inputs,
                            const py::list& results, int set, named::Op op, double prescale,
                            double postscale, int root, const std::vector<std::int64_t>& splits) {
    if (!results.empty() && results.size() != inputs.size()) {
      raise({StatusCode::kInvalidArgument, "as many results as tensors are needed"});
    }
    const auto exchange = open();
    const auto names = exchange_->namesOf(kind, name, set, inputs.size());
    PendingOperation made;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      made.inputs.push_back(valueOrRaise(memoryOf(inputs[i], names[i], Access::kRead)));
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      made.outputs.push_back(valueOrRaise(memoryOf(results[i], names[i], Access::kWrite)));
    }
    made.given = results;
    if (results.empty()) made.made.resize(inputs.size());
    made.pending = names.size();
    const auto [handle, operation] = operations_.add(std::move(made));
    std::vector<named::Request> requests;
    for (std::size_t i = 0; i < names.size(); ++i) {
      requests.push_back({.name = names[i],
                          .kind = kind,
                          .set = set,
                          .op = op,
                          .prescale = prescale,
                          .postscale = postscale,
                          .root = root,
                          .splits = splits});
      fill(requests.back(), operation, i);
    }
    Status status;
    {
      py::gil_scoped_release unlocked;
      status = requests.size() == 1 ? exchange->submit(std::move(requests.front()))
                                    : exchange->submitGroup(std::move(requests));
    }
    if (status.ok()) return handle;
    operations_.remove(handle);
    raise(status);
  }

  Operations::Handle join() {
    PendingOperation made;
    made.pending = 1;
    const auto [handle, operation] = operations_.add(std::move(made));
    const Status status =
        exchange_->join([this, operation = operation](const Status& outcome, int last) {
          const std::int64_t number = last;
          operations_.endPart(operation, outcome, {&number, 1});
        });
    if (status.ok()) return handle;
    operations_.remove(handle);
    raise(status);
  }

  bool poll(Operations::Handle handle) {
    const auto ended = operations_.ended(handle);
    if (!ended.has_value()) raiseUnknown(handle);
    return *ended;
  }

  // Waits for an operation, which stays: when it has ended, as time.monotonic() has it.
  double endOf(Operations::Handle handle) {
    awaitEnd(handle);
    const auto end = operations_.endOf(handle);
    if (!end) raiseUnknown(handle);
    return std::chrono::duration<double>(end->time_since_epoch()).count();
  }

  // The results, and the numbers that came with them.
  std::pair<py::list, std::vector<std::int64_t>> wait(Operations::Handle handle) {
    awaitEnd(handle);
    const auto operation = operations_.remove(handle);
    if (operation == nullptr) raiseUnknown(handle);
    if (!operation->status.ok()) raiseOutcome(operation->status);
    py::list results = std::move(operation->given);
    for (Array& array : operation->made) results.append(std::move(array));
    return {std::move(results), std::move(operation->numbers)};
  }

  int addSet(std::vector<int> ranks) {
    const auto exchange = open();
    const auto added = [&] {
      py::gil_scoped_release unlocked;
      return exchange->addSet(std::move(ranks));
    };
    return valueOrRaise(added());
  }
  // False: there is none.
  bool removeSet(int set) {
    const auto exchange = open();
    Status status;
    {
      py::gil_scoped_release unlocked;
      status = exchange->removeSet(set);
    }
    if (status.code() == StatusCode::kNotFound) return false;
    if (!status.ok()) raise(status);
    return true;
  }
  std::map<int, std::vector<int>> sets() { return open()->sets(); }

  void startTimeline(const std::string& path, bool markCycles) {
    const Status status = open()->startTimeline(path, markCycles);
    if (!status.ok()) raise(status);
  }
  void stopTimeline() {
    const auto exchange = open();
    Status status;
    {
      py::gil_scoped_release unlocked;
      status = exchange->stopTimeline();
    }
    if (!status.ok()) raise(status);
  }

 private:
  void awaitEnd(Operations::Handle handle) {
    std::optional<bool> ended = false;
    while (ended.has_value() && !*ended) {
      // Now and then, for somebody may have pressed Ctrl-C.
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      py::gil_scoped_release unlocked;
      ended = operations_.wait(handle, 200ms);
    }
  }

  std::shared_ptr<named::NamedExchange> open() const { return valueOrRaise(exchange_->get()); }

  [[noreturn]] static void raiseUnknown(Operations::Handle handle) {
    raise({StatusCode::kInvalidArgument,
           fmt::format("there is no operation with handle {}: was it waited for before?", handle)});
  }

  void fill(named::Request& request, PendingOperation* operation, std::size_t i) {
    request.done = [this, operation](const Status& status, std::span<const std::int64_t> rows) {
      operations_.endPart(operation, status, rows);
    };
    if (request.kind == named::Kind::kBarrier) return;
    const ArrayMemory& input = operation->inputs[i];
    request.type = input.type;
    request.shape = input.shape;
    request.input = input.bytes;
    request.output = [operation, i, name = request.name](
                         std::span<const std::int64_t> shape) -> Result<std::span<std::byte>> {
      if (operation->made.empty()) {
        return fitting(operation->outputs[i], operation->inputs[i].type, shape, name);
      }
      auto array =
          Array::allocate(operation->inputs[i].type, std::vector(shape.begin(), shape.end()));
      if (!array.ok()) {
        return {StatusCode::kNoMemory, fmt::format("no memory for the result of \"{}\": {}", name,
                                                   array.status().message())};
      }
      operation->made[i] = *std::move(array);
      return operation->made[i].bytes();
    };
  }

  // The memory of an array that the caller brought for a result.
  static Result<std::span<std::byte>> fitting(const ArrayMemory& output, DataType type,
                                              std::span<const std::int64_t> shape,
                                              const std::string& name) {
    if (output.type != type) {
      return {StatusCode::kInvalidArgument,
              fmt::format("the result of \"{}\" is of {}, but the array for it is of {}", name,
                          toString(type), toString(output.type))};
    }
    if (std::ranges::equal(output.shape, shape)) return output.bytes;
    return {StatusCode::kInvalidArgument,
            fmt::format("the result of \"{}\" has the shape [{}], but the array for it has [{}]",
                        name, fmt::join(shape, ", "), fmt::join(output.shape, ", "))};
  }

  Operations operations_;  // Outlives the exchange, which ends them.
  std::shared_ptr<OpenExchange> exchange_;
};

}  // namespace

void bindNamed(py::module_& module) {
  using named::Kind;
  using named::Op;
  py::enum_<Kind>(module, "Kind", py::module_local())
      .value("ALLREDUCE", Kind::kAllreduce)
      .value("ALLGATHER", Kind::kAllgather)
      .value("BROADCAST", Kind::kBroadcast)
      .value("ALLTOALL", Kind::kAlltoall)
      .value("REDUCESCATTER", Kind::kReducescatter)
      .value("BARRIER", Kind::kBarrier);
  py::enum_<Op>(module, "Op", py::module_local())
      .value("SUM", Op::kSum)
      .value("AVERAGE", Op::kAverage)
      .value("MIN", Op::kMin)
      .value("MAX", Op::kMax)
      .value("PRODUCT", Op::kProduct)
      .value("ADASUM", Op::kAdasum);
  py::class_<PythonExchange>(module, "Exchange", py::module_local())
      .def(py::init<const PythonJob&, const Settings&>(), py::arg("job"),
           py::arg("settings") = Settings())
      .def("close", &PythonExchange::close)
      .def_property_readonly("table", &PythonExchange::table)
      .def("submit", &PythonExchange::submit, py::arg("kind"), py::arg("name"), py::arg("inputs"),
           py::arg("results") = py::list(), py::arg("set") = 0, py::arg("op") = Op::kSum,
           py::arg("prescale") = 1.0, py::arg("postscale") = 1.0, py::arg("root") = 0,
           py::arg("splits") = std::vector<std::int64_t>())
      .def("join", &PythonExchange::join)
      .def("poll", &PythonExchange::poll, py::arg("handle"))
      .def("end_of", &PythonExchange::endOf, py::arg("handle"))
      .def("wait", &PythonExchange::wait, py::arg("handle"))
      .def("add_set", &PythonExchange::addSet, py::arg("ranks"))
      .def("remove_set", &PythonExchange::removeSet, py::arg("set"))
      .def("sets", &PythonExchange::sets)
      .def("start_timeline", &PythonExchange::startTimeline, py::arg("path"),
           py::arg("mark_cycles"))
      .def("stop_timeline", &PythonExchange::stopTimeline);
}

}  // namespace colla::python
