#include "models/task.h"

#include <map>

#include "base/thread_annotations.h"

namespace colla::models {
namespace {

// The parts of a data set, each opened once for all replicas of the process. Thread safe.
class Parts {
 public:
  Parts(std::string name, ReadOptions options)
      : name_(std::move(name)), options_(std::move(options)) {}

  Result<std::shared_ptr<const Dataset>> open(Part part) {
    const MutexLock lock(mutex_);
    auto& opened = opened_[part];
    if (!opened) {
      COLLA_TRY_ASSIGN(opened, openDataset(name_, part, options_));
    }
    return opened;
  }

 private:
  const std::string name_;
  const ReadOptions options_;
  Mutex mutex_;
  std::map<Part, std::shared_ptr<const Dataset>> opened_ COLLA_GUARDED_BY(mutex_);
};

}  // namespace

Result<Task> makeTask(const Entry& entry, const Values& values, const std::string& data,
                      Part part) {
  COLLA_TRY_ASSIGN(ReadOptions options, readOptions(entry, values));
  const auto parts = std::make_shared<Parts>(data, std::move(options));
  COLLA_TRY_ASSIGN(const auto opened, parts->open(part));
  Task task;
  task.name = entry.name;
  task.options = shapeText(entry.flags, values);
  COLLA_TRY_ASSIGN(task.model, entry.make(shapeOf(*opened), values));
  task.optimizer = entry.optimizer;
  task.batch = entry.batch;
  task.schedule = entry.schedule;
  task.clipNorm = entry.clipNorm;
  task.data = [parts](Part wanted) { return parts->open(wanted); };
  return task;
}

std::int64_t countParameters(const MakeModel& make) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : make()->module().parameters()) count += parameter.numel();
  return count;
}

}  // namespace colla::models
