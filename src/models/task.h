// A model of the catalog on a data set, as the Trainer takes it.
#pragma once

#include <string>

#include "colla/trainer.h"
#include "models/catalog.h"

namespace colla::models {

// Opens `part` of `data`, so that what is wrong with it is told before anything starts; the task
// keeps it open and hands it to every replica of this process. kInvalidArgument where model, values
// and data do not fit together.
Result<Task> makeTask(const Entry& entry, const Values& values, const std::string& data, Part part);

// The numbers in the parameters of a model; running statistics and the like are not among them.
std::int64_t countParameters(const MakeModel& make);

}  // namespace colla::models
