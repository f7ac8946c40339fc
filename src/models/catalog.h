// The models that `colla train` knows, with what each is trained on unless the user says otherwise.
//
// A new model is one more row in catalog.cc, and a file with its make function.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colla/dataset.h"
#include "colla/model.h"
#include "colla/optimizer.h"
#include "colla/schedule.h"
#include "colla/status.h"
#include "models/flags.h"

namespace colla::models {

// What a model has to know of the data before it can be made.
struct DataShape {
  std::vector<Field> fields;
  std::int64_t classes = 0;             // 0: the target is not a class.
  std::int64_t symbols = 0;             // As Dataset::symbols().
  std::vector<std::string> words = {};  // As Dataset::words().
};
DataShape shapeOf(const Dataset& dataset);

struct Entry {
  std::string_view name;
  std::string_view summary;  // One line.
  std::string_view data;     // As openDataset() takes it.
  OptimizerOptions optimizer;
  std::int64_t batch = 100;  // Global.
  Schedule schedule = {};
  double clipNorm = 0;  // 0: no clipping.
  std::vector<Flag> flags;
  // What it wants of the samples; null for a model that takes them as they are.
  std::function<Result<ReadOptions>(const Values& values)> reads;
  // kInvalidArgument where the model can't learn from such data, or a flag has a wrong value. What
  // it returns makes models for any number of replicas.
  std::function<Result<MakeModel>(const DataShape& data, const Values& values)> make;
  // Before a training: kInvalidArgument where the model has no loss with these values; else one
  // line that the user should know, or nothing. Null: nothing.
  std::function<Result<std::string>(const Values& values)> advice = {};
};

// entry.reads, or nothing wanted.
Result<ReadOptions> readOptions(const Entry& entry, const Values& values);

// entry.advice, or nothing.
Result<std::string> adviceOf(const Entry& entry, const Values& values);

// By name.
std::span<const Entry> catalog();
// kNotFound, with a list of what there is.
Result<const Entry*> findModel(std::string_view name);

}  // namespace colla::models
