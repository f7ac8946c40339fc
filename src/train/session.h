// One worker's run, from the first step (or the checkpoint's) to the last: what TensorFlow's
// MonitoredTrainingSession did.
//
// Every worker of a job runs one, with the same plan; worker 0 records and saves. All decisions
// that workers must take together (to stop, to evaluate) follow from the step's number or from
// numbers that they have summed together, so no worker waits for another in vain.
//
// To be used by one thread. Errors are thrown as colla::Error.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "checkpoint/loaded.h"
#include "checkpoint/saver.h"
#include "colla/job.h"
#include "colla/trainer.h"
#include "data/loader.h"
#include "data/order.h"
#include "train/feed.h"
#include "train/recorder.h"
#include "train/replica.h"
#include "train/run_plan.h"

namespace colla::train {

class Session {
 public:
  Session(Job& job, const Task& task, const RunPlan& plan);
  ~Session();

  Summary run();

 private:
  bool records() const { return job_.rank() == 0; }
  // No worker goes on without another: an allreduce, or servers that wait for everybody.
  bool inStep() const {
    return !plan_.policy || plan_.policy->exact() || plan_.strategy == Strategy::kHybrid;
  }
  checkpoint::Manifest manifest(std::int64_t step) const;
  void start();
  void saveIn(checkpoint::Directory directory);
  checkpoint::Loaded load() const;
  Feed makeFeed() const;
  void save(std::int64_t step);
  bool saveIsDue(std::int64_t before, std::int64_t step) const;
  Outcome evaluate();
  void guard(std::int64_t step, const Outcome& outcome) const;
  // The checkpoint to go back to, in words; empty if there is none on the disk.
  std::string offer() const;
  observe::Section sectionAt(const Feed& feed, std::int64_t step) const;
  bool endsSection(const Feed& feed, std::int64_t before, std::int64_t step) const;
  bool done(const Feed& feed, std::int64_t step) const;
  Progress progressOf(std::int64_t step, const Outcome& outcome) const;
  void reportServers(Summary& summary);

  Job& job_;
  const Task& task_;
  const RunPlan& plan_;
  std::shared_ptr<const Dataset> train_;
  std::shared_ptr<const Dataset> test_;  // Null: there is none.
  SliceMap map_;
  std::optional<data::Order> order_;
  std::int64_t total_ = 0;    // Updates, in all.
  std::int64_t section_ = 0;  // Steps of a section, where training goes by steps.
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<checkpoint::Saver> saver_;
  std::int64_t first_ = 0;
  std::int64_t saved_ = -1;  // Step of the newest checkpoint, which is finite if that is guarded.
  std::chrono::steady_clock::time_point savedAt_;
};

}  // namespace colla::train
