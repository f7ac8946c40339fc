// Steps of programs that own their loop, for the metrics.
#include <pybind11/pybind11.h>

#include "base/metric_families.h"
#include "base/metrics.h"
#include "python/bind.h"

namespace colla::python {

void bindSteps(pybind11::module_& module) {
  module.def("count_step", [] {
    // Made with the first step: a series appears when its process first counts something of the
    // kind.
    static metrics::Counter steps(metrics::family("colla_steps_total"));
    steps.add();
  });
}

}  // namespace colla::python
