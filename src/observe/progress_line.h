// The lines of Progress as pure functions: time and width are passed in.
//
//   Epoch 1/5                                                               sectionTitle()
//    84/196 [===========>...............] - 2512 samples/s - ETA: 24s - loss: 2.0179    bar()
//   196/196 - 42s - loss: 2.0179 - accuracy: 0.2585                         sectionEnd()
//
// and, where training goes by steps, no title and "Step " before the rest.
#pragma once

#include <cstdint>
#include <string>

#include "base/deadline.h"
#include "observe/step.h"

namespace colla::observe {

// A stretch of training that ends with a line: an epoch, or some steps where training goes by
// steps.
struct Section {
  int epoch = 0;             // From 1.
  int epochs = 0;            // 0: training goes by steps.
  std::int64_t steps = 0;    // In all: of the epoch or, by steps, of the whole run.
  std::int64_t already = 0;  // Of these, done before the section began.
};

struct SectionState {
  Section section;
  TimePoint began;
  std::int64_t done = 0;     // Steps, those before the section included.
  std::int64_t samples = 0;  // Since it began.
};

// Empty for training by steps.
std::string sectionTitle(const Section& section);
// At most `width` columns: the bar gives way first, then the last metrics, then the rate.
std::string bar(const SectionState& state, Metrics metrics, TimePoint now, int width);
std::string sectionEnd(const SectionState& state, Metrics metrics, TimePoint now);

}  // namespace colla::observe
