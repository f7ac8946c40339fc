// The simplest classifier there is: the class whose mean is nearest.
#pragma once

#include "colla/dataset.h"

namespace colla::data {

// The part of `test` that gets the right class from the means of `train`. Field 0 is the input
// (float32), field 1 the class (int64).
double nearestMeanAccuracy(const Dataset& train, const Dataset& test);

}  // namespace colla::data
