// A worker's end of the parameter servers, for frameworks whose arrays Python has: a step at a
// time.
//
// One step of each worker is one slice. One thread at a time may use it. Values lie in the client's
// area, which the servers of this host write to; the framework's own variables get copies.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colla/array.h"
#include "colla/strategy.h"
#include "collective/rows.h"
#include "ps/client.h"
#include "ps/client_options.h"
#include "python/bind.h"
#include "python/job.h"
#include "python/memory.h"
#include "python/raise.h"

namespace colla::python {
namespace {

namespace py = pybind11;
using NamedArrays = std::vector<std::pair<std::string, py::object>>;

struct Choice {
  std::string strategy;
  std::string optimizer;  // As toString(OptimizerOptions) writes it.
  int backup = 0;
  std::optional<std::int64_t> maxStaleness;
  std::int64_t staleness = 0;
  int partitions = 0;
};

Result<ps::PolicyOptions> policyOf(const Choice& choice, int workers) {
  COLLA_TRY_ASSIGN(const Strategy strategy, parseStrategy(choice.strategy));
  const StrategyTraits& traits = traitsOf(strategy);
  if (!traits.servers) {
    return {StatusCode::kInvalidArgument,
            fmt::format("strategy \"{}\" has no servers: use {}", choice.strategy,
                        strategyNames([](const StrategyTraits& each) { return each.servers; }))};
  }
  ps::PolicyOptions policy{.workers = workers,
                           .backup = choice.backup,
                           .maxStaleness = choice.maxStaleness,
                           .staleness = choice.staleness};
  if (traits.pacing == Pacing::kServersAsync) policy.consistency = ps::Consistency::kAsync;
  if (traits.pacing == Pacing::kServersSsp) policy.consistency = ps::Consistency::kSsp;
  COLLA_TRY(validate(policy));
  return policy;
}

// Raises for numbers that an optimizer can't have.
void check(const Choice& choice) {
  valueOrRaise(optim::UpdateRule::make(valueOrRaise(parseOptimizer(choice.optimizer))));
}

Status wrongArray(const std::string& name, std::string_view why) {
  return {StatusCode::kInvalidArgument, fmt::format("variable \"{}\" {}", name, why)};
}

// What a worker brings for a table: numbers of rows, and their values.
struct RowsMemory {
  ArrayMemory rows;
  ArrayMemory values;
};

struct Outcome {
  bool taken = false;
  std::int64_t step = 0;
};

// What `action` gives, without Python's lock.
template <typename Action>
auto unlocked(const Action& action) {
  auto result = [&] {
    const py::gil_scoped_release released;
    return action();
  }();
  return valueOrRaise(std::move(result));
}

class PythonServers {
 public:
  // `values` are worker 0's first ones; from number `firstTable` on they are tables. Updates are
  // counted from `step` on.
  PythonServers(const PythonJob& job, const NamedArrays& values, int firstTable,
                const Choice& choice, std::int64_t step)
      : job_(job.job()), firstTable_(firstTable) {
    if (job_->servers() == 0) {
      raise({StatusCode::kInvalidArgument,
             fmt::format("strategy \"{}\" needs parameter servers: start the job with colla run "
                         "--ps 1",
                         choice.strategy)});
    }
    std::vector<ArrayMemory> first;
    for (const auto& [name, array] : values) {
      first.push_back(valueOrRaise(memoryOf(array, name, Access::kRead)));
    }
    ps::Declaration declaration = valueOrRaise(declare(values, first, choice));
    Status status;
    {
      const py::gil_scoped_release unlocked;
      status = open(std::move(declaration), first, step);
    }
    if (!status.ok()) raise(status);
  }

  // Ends this worker's step with a gradient for each variable, or None; the next values are in
  // place then. `factor` multiplies the learning rate that the servers were told.
  Outcome step(const std::vector<py::object>& dense,
               const std::vector<std::optional<std::pair<py::object, py::object>>>& tables,
               double factor) {
    std::vector<std::optional<ArrayMemory>> gradients;
    for (std::size_t i = 0; i < dense.size(); ++i) {
      gradients.emplace_back();
      if (dense[i].is_none()) continue;
      gradients.back() = valueOrRaise(memoryOf(dense[i], nameOf(i), Access::kRead));
    }
    std::vector<std::optional<RowsMemory>> rows;
    for (std::size_t i = 0; i < tables.size(); ++i) {
      rows.emplace_back();
      if (!tables[i]) continue;
      const std::string& name = nameOf(dense.size() + i);
      rows.back() = RowsMemory{valueOrRaise(memoryOf(tables[i]->first, name, Access::kRead)),
                               valueOrRaise(memoryOf(tables[i]->second, name, Access::kRead))};
    }
    return unlocked([&]() { return takeStep(gradients, rows, factor); });
  }

  // Where a variable's values lie, of this step.
  Array value(int number) {
    const ps::Entry& entry = entryOf(number);
    auto* const data = client_->area().data() + client_->layout().offsetOf(number);
    return Array::view(client_, data, entry.type, entry.shape);
  }

  // Values of some rows of a table.
  Array pull(int number, const py::object& rows) {
    const ps::Entry& entry = entryOf(number);
    const ArrayMemory wanted = valueOrRaise(memoryOf(rows, entry.name, Access::kRead));
    if (number < firstTable_ || wanted.type != DataType::kInt64) {
      raise(wrongArray(entry.name, "has rows by numbers in int64 if it is a table"));
    }
    const auto* const numbers = reinterpret_cast<const std::int64_t*>(wanted.bytes.data());
    const std::size_t count = wanted.bytes.size() / sizeof(std::int64_t);
    std::vector<std::int64_t> shape = entry.shape;
    shape.front() = static_cast<std::int64_t>(count);
    return unlocked([&]() -> Result<Array> {
      COLLA_TRY_ASSIGN(Array values, Array::allocate(DataType::kFloat32, shape));
      COLLA_TRY(client_->pullRows(number, {numbers, count}, values.as<float>()));
      return values;
    });
  }

  void leave(bool again) {
    Status status;
    {
      const py::gil_scoped_release released;
      status = client_->leave(again);
    }
    if (!status.ok()) raise(status);
  }

 private:
  const ps::Entry& entryOf(int number) const {
    const auto entries = client_->layout().entries();
    if (number < 0 || number >= std::ssize(entries)) {
      raise({StatusCode::kInvalidArgument, fmt::format("there is no variable {}", number)});
    }
    return entries[static_cast<std::size_t>(number)];
  }
  const std::string& nameOf(std::size_t number) const {
    return entryOf(static_cast<int>(number)).name;
  }

  Result<ps::Declaration> declare(const NamedArrays& values, const std::vector<ArrayMemory>& first,
                                  const Choice& choice) const {
    ps::Declaration declaration;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool table = static_cast<int>(i) >= firstTable_;
      if (table && (first[i].type != DataType::kFloat32 || first[i].bytes.empty())) {
        return wrongArray(values[i].first, "can't have gradients of rows: it is not of float32");
      }
      declaration.entries.push_back({.name = values[i].first,
                                     .kind = table ? ps::Kind::kRows : ps::Kind::kParameter,
                                     .type = first[i].type,
                                     .shape = first[i].shape,
                                     .order = static_cast<int>(i)});
    }
    COLLA_TRY_ASSIGN(declaration.optimizer, parseOptimizer(choice.optimizer));
    COLLA_TRY_ASSIGN(declaration.policy, policyOf(choice, job_->size()));
    declaration.layout = {.servers = job_->servers(), .partitions = choice.partitions};
    declaration.threads = job_->threads();
    for (int worker = 0; worker <= job_->size(); ++worker) {
      declaration.firstSlices.push_back(worker);
    }
    if (declaration.policy.exact()) declaration.hosts = ps::hostsOf(*job_);
    return declaration;
  }

  Status open(ps::Declaration declaration, const std::vector<ArrayMemory>& first,
              std::int64_t step) {
    COLLA_TRY_ASSIGN(std::unique_ptr<ps::Client> client,
                     ps::Client::connect(ps::clientOptions(*job_), std::move(declaration)));
    client_ = std::move(client);
    if (job_->rank() == 0) COLLA_TRY(fill(first, step));
    return client_->begin().status();
  }

  // Worker 0's values become the servers'.
  Status fill(const std::vector<ArrayMemory>& first, std::int64_t step) {
    const ps::Layout& layout = client_->layout();
    for (int i = 0; i < firstTable_; ++i) {
      const std::span<const std::byte> bytes = first[static_cast<std::size_t>(i)].bytes;
      std::memcpy(client_->area().data() + layout.offsetOf(i), bytes.data(), bytes.size());
    }
    for (int number = 0; number < std::ssize(layout.blocks()); ++number) {
      const ps::Block& block = layout.blocks()[static_cast<std::size_t>(number)];
      COLLA_TRY(client_->fill(number, -1, client_->area().subspan(block.offset, block.bytes)));
    }
    for (int number = 0; number < std::ssize(layout.partitions()); ++number) {
      const ps::Partition& part = layout.partitions()[static_cast<std::size_t>(number)];
      const auto entry = static_cast<std::size_t>(part.entry);
      const std::size_t width = layout.entries()[entry].width();
      const auto* const values = reinterpret_cast<const float*>(first[entry].bytes.data());
      COLLA_TRY(
          client_->fillRows(number, -1, 0,
                            std::span(values + static_cast<std::size_t>(part.begin) * width,
                                      static_cast<std::size_t>(part.end - part.begin) * width)));
    }
    return client_->start(step, std::vector<std::int64_t>(layout.entries().size()));
  }

  Result<Outcome> takeStep(const std::vector<std::optional<ArrayMemory>>& gradients,
                           const std::vector<std::optional<RowsMemory>>& tables, double factor) {
    const ps::Layout& layout = client_->layout();
    const auto entries = layout.entries();
    if (std::ssize(gradients) != firstTable_ ||
        gradients.size() + tables.size() != entries.size()) {
      return {StatusCode::kInvalidArgument, "a step has a gradient, or None, for each variable"};
    }
    ps::Finish finish{.share = 1.0 / job_->size(), .factor = factor};
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const ps::Entry& entry = entries[i];
      std::byte* const place = client_->partial(0).data() + layout.offsetOf(static_cast<int>(i));
      finish.present.push_back(gradients[i] ? 1 : 0);
      if (!gradients[i]) {
        std::memset(place, 0, entry.bytes());
        continue;
      }
      if (gradients[i]->type != entry.type || gradients[i]->bytes.size() != entry.bytes()) {
        return wrongArray(entry.name, "got a gradient of a different shape or type");
      }
      std::memcpy(place, gradients[i]->bytes.data(), entry.bytes());
    }
    for (std::size_t i = 0; i < tables.size(); ++i) {
      const std::size_t number = gradients.size() + i;
      collective::Rows rows;
      if (tables[i]) {
        COLLA_TRY_ASSIGN(rows, rowsOf(entries[number], *tables[i]));
      }
      finish.present.push_back(rows.rows.empty() ? 0 : 1);
      COLLA_TRY(client_->pushRows(static_cast<int>(number), std::span(&rows, 1)));
    }
    for (int block = 0; block < std::ssize(layout.blocks()); ++block) client_->push(block);
    COLLA_TRY_ASSIGN(const ps::Turn turn, client_->finish(finish));
    return Outcome{.taken = !turn.dropped, .step = turn.step};
  }

  static Result<collective::Rows> rowsOf(const ps::Entry& table, const RowsMemory& given) {
    const std::size_t count = given.rows.bytes.size() / sizeof(std::int64_t);
    if (given.rows.type != DataType::kInt64 || given.values.type != DataType::kFloat32 ||
        given.values.bytes.size() != count * table.width() * sizeof(float)) {
      return wrongArray(table.name, "got a gradient of rows of a different shape or type");
    }
    const std::span numbers(reinterpret_cast<const std::int64_t*>(given.rows.bytes.data()), count);
    for (const std::int64_t row : numbers) {
      if (row >= 0 && row < table.rows()) continue;
      return wrongArray(table.name, fmt::format("has no row {}: it has {}", row, table.rows()));
    }
    return collective::gatherRows(
        numbers, {reinterpret_cast<const float*>(given.values.bytes.data()), count * table.width()},
        table.width());
  }

  const std::shared_ptr<Job> job_;  // Outlives the client.
  const int firstTable_;
  std::shared_ptr<ps::Client> client_;
};

}  // namespace

void bindServers(py::module_& module) {
  py::class_<Choice>(module, "ServerChoice", py::module_local())
      .def(
          py::init<std::string, std::string, int, std::optional<std::int64_t>, std::int64_t, int>(),
          py::arg("strategy"), py::arg("optimizer"), py::arg("backup") = 0,
          py::arg("max_staleness") = py::none(), py::arg("staleness") = 0,
          py::arg("partitions") = 0)
      .def("check", &check);
  py::class_<PythonServers>(module, "Servers", py::module_local())
      .def(py::init<const PythonJob&, const NamedArrays&, int, const Choice&, std::int64_t>(),
           py::arg("job"), py::arg("values"), py::arg("first_table"), py::arg("choice"),
           py::arg("step") = 0)
      .def(
          "step",
          [](PythonServers& self, const std::vector<py::object>& dense,
             const std::vector<std::optional<std::pair<py::object, py::object>>>& tables,
             double factor) {
            const Outcome outcome = self.step(dense, tables, factor);
            return std::pair(outcome.taken, outcome.step);
          },
          py::arg("dense"), py::arg("tables"), py::arg("factor") = 1.0)
      .def("value", &PythonServers::value, py::arg("number"))
      .def("pull", &PythonServers::pull, py::arg("number"), py::arg("rows"))
      .def("leave", &PythonServers::leave, py::arg("again") = false);
}

}  // namespace colla::python
