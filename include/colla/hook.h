// What a program learns of a run of colla::Trainer while it goes on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colla/model.h"

namespace colla {

// Sums of one step, or means over several: the same on every worker.
struct Progress {
  std::int64_t step = 0;  // Updates done so far.
  std::int64_t epoch = 0;
  double loss = 0;
  std::vector<double> metrics;  // As Model::metrics() names them.

  // In a hook: all workers end the run, together and without an error, and worker 0 logs the
  // reason. From afterEvaluation() they end it at once where all workers evaluate together. Under
  // ps-async, ps-ssp and ps-sync with backup workers, where worker 0 does it alone, and from
  // afterStep(), they end it with the next step. It is then evaluated and saved as a run that has
  // come to its end, and the program's exit code is 0. Elsewhere it does nothing.
  void requestStop(const std::string& reason) const {
    if (stopReason != nullptr) *stopReason = reason;
  }
  std::string* stopReason = nullptr;  // Of the run whose hook is called.
};

// What a program can add to a run. Called on worker 0 alone.
class Hook {
 public:
  virtual ~Hook() = default;
  virtual void beforeStep(std::int64_t /*step*/, Model& /*model*/) {}
  virtual void afterStep(const Progress& /*progress*/, Model& /*model*/) {}
  // Of the test part, after Progress::step; the model is not in training mode.
  virtual void afterEvaluation(const Progress& /*progress*/, Model& /*model*/) {}
  // On the thread that saves. What it throws ends the run, as that of the others does.
  virtual void afterSave(std::int64_t /*step*/, const std::string& /*path*/) {}
  virtual void atEnd(const Progress& /*progress*/, Model& /*model*/) {}
};

}  // namespace colla
