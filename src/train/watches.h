// What a run makes of its evaluations: when it ends early, which checkpoint is the best one, and
// how often the learning rate falls.
//
// Every worker that evaluates has one, and all of them come to the same: it is a function of the
// evaluations' numbers, which have the same bits everywhere. Checkpoints keep what it has seen, so
// a resumed run decides as the whole one would. Not thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "colla/schedule.h"
#include "colla/trainer.h"

namespace colla::train {

// One metric, from evaluation to evaluation.
struct Watch {
  std::string metric;
  double minDelta = 0;
  std::int64_t patience = 0;
  bool falls = true;       // A lower value is a better one.
  std::size_t number = 0;  // Among the values of an evaluation.

  // What it has seen.
  std::optional<double> best = {};
  std::int64_t bestStep = -1;
  std::int64_t since = 0;  // Evaluations after that one; for plateaus: after the last of them too.
  std::int64_t plateaus = 0;

  // Whether `value` is better than the best before it by more than minDelta. NaN never is.
  bool takes(std::int64_t step, double value);
};

class Watches {
 public:
  // What a checkpoint's manifest has, by name.
  using State = std::map<std::string, std::string>;

  // `metrics`: names of an evaluation's values, of which the first is "loss". Throws colla::Error
  // with kInvalidArgument if an option names a different one.
  Watches(const TrainOptions& options, const Schedule& schedule,
          const std::vector<std::string>& metrics,
          const std::function<bool(const std::string&)>& lowerIsBetter);

  bool any() const { return !watches_.empty(); }

  // An evaluation after `step`; the same one again changes nothing. `regular`: it is one that every
  // run with these flags makes, not only one that ends here.
  struct Verdict {
    bool best = false;     // So far.
    bool plateau = false;  // The learning rate falls.
  };
  Verdict evaluated(std::int64_t step, const std::vector<double>& values, bool regular);

  // Why the run is to end, in words; empty: it goes on.
  std::string stops() const;
  // What plateaus have multiplied the learning rate by.
  double plateau() const;
  // The same in words, for the last evaluation's verdict.
  std::string plateauText() const;

  // The best one so far was saved as that of `step`; nothing: it is not there any more.
  void keptBest(std::optional<std::int64_t> step);
  std::optional<std::int64_t> bestStep() const;

  // Keeps what other runs have left under names that this one does not use.
  State state() const;
  void restore(const State& state);
  // The same for worker 0's peers, as numbers: always as many.
  std::vector<double> numbers() const;
  void setNumbers(const std::vector<double>& numbers);

 private:
  std::map<std::string, Watch> watches_;  // By their names in State.
  double plateauFactor_ = 1;
  std::int64_t evaluatedAt_ = -1;
  State others_;
};

// Those of a run of `model`, as the constructor makes them. kInvalidArgument, too, where they would
// wait for evaluations that there are none of.
Watches watchesOf(const Model& model, const TrainOptions& options, const Schedule& schedule,
                  bool evaluates);

}  // namespace colla::train
