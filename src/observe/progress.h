// Shows how training gets on, the way Keras does.
//
//   Progress progress(stdout);
//   progress.begin({.epoch = 1, .epochs = 5, .steps = 196});     // Epoch 1/5
//   progress.step(84, samplesSoFar, metricsSoFar);               // a bar, on a terminal only
//   progress.end(metrics);                   // 196/196 - 42s - loss: 2.0179 - accuracy: 0.2585
//
// Training by steps has sections without epochs, as long as the program wants a line for:
//
//   progress.begin({.steps = 1000, .already = 100});
//   progress.end(metrics);                   // Step 200/1000 - 12s - loss: 2.0179
//
// The bar is redrawn in place, at most ten times a second, each time with a single write. On
// anything but a terminal (base/terminal.h), and on a dumb one, there are only the lines. Not
// thread safe.
#pragma once

#include <cstdio>
#include <string>

#include "observe/progress_line.h"

namespace colla::observe {

class Progress {
 public:
  static constexpr std::chrono::milliseconds kRedraw{100};

  // `file` and `clock` must outlive it. Writes go through `file`'s buffer and are flushed, so they
  // keep their order with what the program itself prints there.
  explicit Progress(std::FILE* file, const Clock& clock = Clock::real());
  // Erases a bar that was not ended.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin(const Section& section);
  // `done` steps of the section's steps are done, with `samples` samples since it began.
  void step(std::int64_t done, std::int64_t samples, Metrics metrics);
  // Whether step() would draw now: if not, its metrics need not be known.
  bool wantsStep() const;
  void end(Metrics metrics);
  // Erases the bar, for the program to print something; the next step() draws it again.
  void pause();

 private:
  void draw(Metrics metrics, TimePoint now);
  void write(const std::string& text);

  std::FILE* file_;
  const Clock& clock_;
  const bool terminal_;
  SectionState state_;
  TimePoint drawn_ = {};
  bool shown_ = false;  // A bar is.
  bool failed_ = false;
};

}  // namespace colla::observe
