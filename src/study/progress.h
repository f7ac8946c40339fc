// The line that says what a study is doing: on a terminal one line that changes, elsewhere a line
// for each run.
#pragma once

#include <string>

#include "base/deadline.h"
#include "study/plan.h"

namespace colla::study {

// "42 s", "12 min", "1 h 30 min".
std::string duration(double seconds);

class Progress {
 public:
  explicit Progress(const Plan& plan);
  // The line ends where it is.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Run `index` of the plan begins; runs before it took `factor` times what was estimated.
  void begin(std::size_t index, double factor);
  // To be called now and then.
  void tick();
  // A line that stays.
  void say(const std::string& line);

 private:
  std::string line() const;

  const Plan& plan_;
  const bool terminal_;
  std::size_t index_ = 0;
  double factor_ = 1;
  TimePoint began_{};
  std::string shown_;
};

}  // namespace colla::study
