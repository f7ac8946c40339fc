// Python's end of named collectives. A call from Python becomes an Operation with a number, its
// handle, and stays in a table until Python asks for its outcome. The exchange's thread runs no
// Python code and gives up no tensor: what it needs is in the Operation, and that is destroyed by
// the thread that waited for it.
#include <fmt/format.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/torch.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/config.h"
#include "colla/error.h"
#include "named/exchange.h"
#include "python/bind.h"
#include "python/job.h"
#include "python/raise.h"
#include "train/tensors.h"

namespace colla::python {
namespace {

namespace py = pybind11;
using namespace std::chrono_literals;

// One call: a request, or several that go together.
struct Operation {
  std::vector<torch::Tensor> inputs;
  std::vector<torch::Tensor> results;  // Of `inputs`, in place; undefined: still to be made.
  std::vector<std::int64_t> numbers;   // Rows from each member of an alltoall; who joined last.
  std::size_t pending = 0;             // Parts that have not ended.
  Status status;                       // The first failure.
};

class Operations {
 public:
  using Handle = std::int64_t;

  std::pair<Handle, Operation*> add(Operation operation) {
    const std::scoped_lock lock(mutex_);
    auto& place = operations_[++last_];
    place = std::make_unique<Operation>(std::move(operation));
    return {last_, place.get()};
  }

  void endPart(Operation* operation, const Status& status,
               std::span<const std::int64_t> numbers = {}) {
    const std::scoped_lock lock(mutex_);
    if (operation->status.ok()) operation->status = status;
    operation->numbers.assign(numbers.begin(), numbers.end());
    if (--operation->pending == 0) ended_.notify_all();
  }

  // Nothing: there is no such operation.
  std::optional<bool> ended(Handle handle) {
    const std::scoped_lock lock(mutex_);
    const auto found = operations_.find(handle);
    if (found == operations_.end()) return std::nullopt;
    return found->second->pending == 0;
  }

  // Waits for an operation's end for at most `patience`; as ended().
  std::optional<bool> wait(Handle handle, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    auto found = operations_.find(handle);
    ended_.wait_for(lock, patience, [&] {
      found = operations_.find(handle);  // Another thread may have waited for it, too.
      return found == operations_.end() || found->second->pending == 0;
    });
    if (found == operations_.end()) return std::nullopt;
    return found->second->pending == 0;
  }

  // Takes it out; null when there is none.
  std::unique_ptr<Operation> remove(Handle handle) {
    const std::scoped_lock lock(mutex_);
    auto node = operations_.extract(handle);
    return node.empty() ? nullptr : std::move(node.mapped());
  }

 private:
  std::mutex mutex_;  // Guards what follows, and what changes in an Operation.
  std::condition_variable ended_;
  std::unordered_map<Handle, std::unique_ptr<Operation>> operations_;
  Handle last_ = 0;
};

Result<named::Options> optionsOf(const Settings& settings) {
  COLLA_TRY_ASSIGN(const Config config, Config::fromEnvironment(settings));
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
  PythonExchange(PythonJob& job, const Settings& settings) {
    const auto options = valueOrRaise(optionsOf(settings));
    const auto created = [&] {
      py::gil_scoped_release unlocked;
      return named::Exchange::create(job.job(), options);
    };
    exchange_ = valueOrRaise(created());
    const std::string timeline = valueOrRaise(Config::fromEnvironment(settings)).text("timeline");
    if (!timeline.empty()) startTimeline(timeline, /*markCycles=*/false);
  }
  ~PythonExchange() { close(); }

  // Ends what is pending; later calls are refused.
  void close() {
    std::shared_ptr<named::Exchange> last;
    {
      const std::scoped_lock lock(mutex_);
      last = std::move(exchange_);
    }
    py::gil_scoped_release unlocked;
    last.reset();
  }

  Operations::Handle submit(named::Kind kind, const std::vector<std::string>& names,
                            std::vector<torch::Tensor> inputs, std::vector<torch::Tensor> results,
                            int set, named::Op op, double prescale, double postscale, int root,
                            const std::vector<std::int64_t>& splits) {
    Operation made;
    made.inputs = std::move(inputs);
    made.results = std::move(results);
    made.results.resize(made.inputs.size());
    made.pending = names.size();
    if (kind != named::Kind::kBarrier && names.size() != made.inputs.size()) {
      raise({StatusCode::kInvalidArgument, "as many names as tensors are needed"});
    }
    const auto exchange = open();
    const auto [handle, operation] = operations_.add(std::move(made));
    Status status;
    try {
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
      py::gil_scoped_release unlocked;
      status = requests.size() == 1 ? exchange->submit(std::move(requests.front()))
                                    : exchange->submitGroup(std::move(requests));
    } catch (const Error& error) {
      status = {StatusCode::kInvalidArgument, std::string(error.status().message())};
    }
    if (status.ok()) return handle;
    operations_.remove(handle);
    raise(status);
  }

  Operations::Handle join() {
    const auto exchange = open();
    Operation made;
    made.pending = 1;
    const auto [handle, operation] = operations_.add(std::move(made));
    const Status status =
        exchange->join([this, operation = operation](const Status& outcome, int last) {
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

  // The results, and the numbers that came with them.
  std::pair<std::vector<torch::Tensor>, std::vector<std::int64_t>> wait(Operations::Handle handle) {
    std::optional<bool> ended = false;
    while (ended.has_value() && !*ended) {
      // Now and then, for somebody may have pressed Ctrl-C.
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      py::gil_scoped_release unlocked;
      ended = operations_.wait(handle, 200ms);
    }
    const auto operation = operations_.remove(handle);
    if (operation == nullptr) raiseUnknown(handle);
    if (!operation->status.ok()) raiseOutcome(operation->status);
    return {std::move(operation->results), std::move(operation->numbers)};
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
  std::shared_ptr<named::Exchange> open() {
    std::shared_ptr<named::Exchange> exchange;
    {
      const std::scoped_lock lock(mutex_);
      exchange = exchange_;
    }
    if (exchange == nullptr) raise({StatusCode::kCancelled, "this exchange was shut down"});
    return exchange;
  }

  [[noreturn]] static void raiseUnknown(Operations::Handle handle) {
    raise({StatusCode::kInvalidArgument,
           fmt::format("there is no operation with handle {}: was it waited for before?", handle)});
  }

  void fill(named::Request& request, Operation* operation, std::size_t i) {
    request.done = [this, operation](const Status& status, std::span<const std::int64_t> rows) {
      operations_.endPart(operation, status, rows);
    };
    if (request.kind == named::Kind::kBarrier) return;
    const torch::Tensor& input = operation->inputs[i];
    const Buffer memory = train::memoryOf(input, request.name);
    request.type = memory.type();
    request.shape = input.sizes().vec();
    request.input = memory.bytes();
    request.output = [operation, i, name = request.name, type = input.scalar_type()](
                         std::span<const std::int64_t> shape) -> Result<std::span<std::byte>> {
      torch::Tensor& result = operation->results[i];
      try {
        if (!result.defined()) {
          result = torch::empty(torch::IntArrayRef(shape.data(), shape.size()), type);
        }
        return train::memoryOf(result, name).bytes();
      } catch (const std::exception& error) {
        return {StatusCode::kNoMemory,
                fmt::format("no memory for the result of \"{}\": {}", name, error.what())};
      }
    };
  }

  Operations operations_;  // Outlives the exchange, which ends them.
  std::mutex mutex_;       // Guards the pointer.
  std::shared_ptr<named::Exchange> exchange_;
};

}  // namespace

void bindNamed(py::module_& module) {
  using named::Kind;
  using named::Op;
  py::enum_<Kind>(module, "Kind")
      .value("ALLREDUCE", Kind::kAllreduce)
      .value("ALLGATHER", Kind::kAllgather)
      .value("BROADCAST", Kind::kBroadcast)
      .value("ALLTOALL", Kind::kAlltoall)
      .value("REDUCESCATTER", Kind::kReducescatter)
      .value("BARRIER", Kind::kBarrier);
  py::enum_<Op>(module, "Op")
      .value("SUM", Op::kSum)
      .value("AVERAGE", Op::kAverage)
      .value("MIN", Op::kMin)
      .value("MAX", Op::kMax)
      .value("PRODUCT", Op::kProduct)
      .value("ADASUM", Op::kAdasum);
  py::class_<PythonExchange>(module, "Exchange")
      .def(py::init<PythonJob&, const Settings&>(), py::arg("job"),
           py::arg("settings") = Settings(), py::keep_alive<1, 2>())
      .def("close", &PythonExchange::close)
      .def("submit", &PythonExchange::submit, py::arg("kind"), py::arg("names"), py::arg("inputs"),
           py::arg("results") = std::vector<torch::Tensor>(), py::arg("set") = 0,
           py::arg("op") = Op::kSum, py::arg("prescale") = 1.0, py::arg("postscale") = 1.0,
           py::arg("root") = 0, py::arg("splits") = std::vector<std::int64_t>())
      .def("join", &PythonExchange::join)
      .def("poll", &PythonExchange::poll, py::arg("handle"))
      .def("wait", &PythonExchange::wait, py::arg("handle"))
      .def("add_set", &PythonExchange::addSet, py::arg("ranks"))
      .def("remove_set", &PythonExchange::removeSet, py::arg("set"))
      .def("sets", &PythonExchange::sets)
      .def("start_timeline", &PythonExchange::startTimeline, py::arg("path"),
           py::arg("mark_cycles"))
      .def("stop_timeline", &PythonExchange::stopTimeline);
}

}  // namespace colla::python
