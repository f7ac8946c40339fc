// The capsule with the table of named operations: operations_table.h says what is in it.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

namespace colla::python {

class OpenExchange;

pybind11::capsule tableOf(std::shared_ptr<OpenExchange> exchange);

}  // namespace colla::python
