// One worker's run, from the first step (or the checkpoint's) to the last: what TensorFlow's
// MonitoredTrainingSession did.
//
// Every worker of a job runs one, with the same plan; one of them records and saves. All decisions
// that workers must take together (to stop, to evaluate) follow from the step's number or from
// numbers that they have summed together, so no worker waits for another in vain.
//
// To be used by one thread. Errors are thrown as colla::Error.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/loaded.h"
#include "checkpoint/saver.h"
#include "colla/job.h"
#include "colla/trainer.h"
#include "data/loader.h"
#include "data/order.h"
#include "train/evaluation.h"
#include "train/feed.h"
#include "train/recorder.h"
#include "train/replica.h"
#include "train/run_plan.h"
#include "train/watches.h"

namespace colla::train {

// Asked on every worker between two steps, with the number of updates made; all get the same
// answer: the workers that the training goes on with, or nothing to leave them as they are. The
// first of them must be one of the present workers.
using NextEpoch = std::function<std::optional<EpochPlan>(std::int64_t step)>;

class Session {
 public:
  Session(Job& job, const Task& task, const RunPlan& plan, NextEpoch nextEpoch = nullptr);
  ~Session();

  Summary run();

 private:
  using SteadyClock = std::chrono::steady_clock;

  // This worker writes records and checkpoints.
  bool records() const { return workers_->records(); }
  // Where workers do not go in step, the one that records evaluates for all.
  bool evaluates() const { return test_ && (plan_.rules.evaluateTogether || records()); }

  // Before the first step.
  void openData();
  void watchEvaluations();
  std::optional<checkpoint::Directory> ownDirectory() const;
  checkpoint::Loaded load() const;
  void makeExchange();
  void start(const std::optional<checkpoint::Loaded>& loaded);
  void saveIn(checkpoint::Directory directory);
  void remarkBest(checkpoint::Directory& directory);
  void startRecords(std::optional<checkpoint::Directory> directory);
  Feed makeFeed(std::int64_t first) const;

  // Between two steps.
  bool epochEnds();
  void changeEpoch(const EpochPlan& plan);
  void leaveEpoch(const EpochPlan& next);
  void enterEpoch();
  void shareProgress();
  void gatherIdleWorkers();

  // The parts of run(), in its order.
  void begin();
  void endEmptyRun();
  void waitForEpoch(double factor);
  void beginSection();
  void callHooks(const char* name, std::int64_t step, const std::function<void(Hook&)>& call);
  void train(double factor);
  void record(std::int64_t done, double start, double end, const Outcome& outcome);
  void awaitOthers();
  void evaluateNow(bool alone, bool regular);
  // What this worker would like, and what all have come to.
  ps::Stop wish() const;
  void heed(ps::Stop stop);
  void endSection();
  Summary finish();

  bool done() const;
  // After a step of this worker, which had `before` updates and batch number `batch` before it.
  bool epochOfDataEnded(std::int64_t batch) const;
  bool endsSection(std::int64_t before, std::int64_t batch) const;
  bool evaluationIsDue(std::int64_t before, std::int64_t batch) const;
  bool saveIsDue(std::int64_t before) const;
  std::int64_t nextSave() const;
  void saveWhatIsDue();
  observe::Section section() const;

  void save(std::int64_t step, bool best = false);
  checkpoint::Manifest manifest(std::int64_t step) const;
  void guard(const Outcome& outcome) const;
  // The checkpoint to go back to, in words; empty if there is none on the disk.
  std::string offer() const;
  Outcome shownOf(const Outcome& outcome) const;  // Replica::shown(), whose errors name the step.
  Progress progressOf(std::int64_t step, const Outcome& outcome,
                      std::string* stopReason = nullptr) const;
  void reportStatistics();

  Job& job_;
  Epoch epoch_;
  std::optional<Workers> workers_;  // Of epoch_.
  const NextEpoch nextEpoch_;
  const Task& task_;
  RunPlan plan_;
  const Schedule schedule_;
  std::shared_ptr<const Dataset> train_;
  std::shared_ptr<const Dataset> test_;  // Null: there is none.
  std::optional<data::Order> order_;
  std::int64_t total_ = 0;         // Updates, in all.
  std::int64_t sectionSteps_ = 0;  // Steps of a section, where training goes by steps.
  std::unique_ptr<Replica> replica_;
  TrainMetrics metrics_;
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<checkpoint::Saver> saver_;
  std::int64_t saved_ = -1;   // Step of the newest checkpoint, which is finite if that is guarded.
  std::int64_t saveAt_ = -1;  // The save that the servers know of (StepEnd::saveAt).
  SteadyClock::time_point savedAt_;

  // Of the run.
  std::optional<Feed> feed_;
  std::int64_t first_ = 0;  // Updates made before it,
  std::int64_t step_ = 0;   // and by now.
  SteadyClock::time_point begin_;
  bool inSection_ = false;
  Mean mean_;  // Of the section.
  std::optional<Outcome> tested_;
  std::int64_t testedAt_ = -1;  // The step that tested_ is of.
  bool evaluationDue_ = false;  // As soon as all workers have the same parameters,
  bool regularDue_ = false;     // and not only because the run is at its end.
  bool saveDue_ = false;
  bool bestDue_ = false;  // The parameters that were evaluated last are the best so far.
  std::optional<Watches> watches_;
  std::string stopReason_;  // A hook or a watch of this worker would like to end the run;
  bool stopped_ = false;    // all workers have agreed to.
  Summary summary_;
  std::int64_t askedAt_ = -1;  // The last step that nextEpoch_ was asked at.
  NamedTensors optimizer_;     // On its way from one epoch to the next.
};

}  // namespace colla::train
