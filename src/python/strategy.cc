// The table of strategies (colla/strategy.h), for Python's optimizers.
#include "colla/strategy.h"

#include <pybind11/pybind11.h>

#include "python/bind.h"

namespace colla::python {
namespace {

namespace py = pybind11;

py::tuple optionsOf(const StrategyTraits& traits) {
  py::tuple options(traits.options.size());
  for (std::size_t i = 0; i < traits.options.size(); ++i) options[i] = py::str(traits.options[i]);
  return options;
}

}  // namespace

void bindStrategy(py::module_& module) {
  py::class_<StrategyTraits>(module, "StrategyTraits", py::module_local())
      .def_readonly("name", &StrategyTraits::name)
      .def_property_readonly(
          "processes",
          [](const StrategyTraits& self) { return self.workers == WorkerKind::kProcesses; })
      .def_readonly("servers", &StrategyTraits::servers)
      .def_property_readonly("options", &optionsOf);

  const auto table = strategies();
  py::tuple rows(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    rows[i] = py::cast(&table[i], py::return_value_policy::reference);
  }
  module.attr("strategies") = rows;
}

}  // namespace colla::python
