// The likeliest sequence of words, searched with a few candidates kept at each length.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "models/lstm.h"

namespace colla::models {

struct BeamOptions {
  std::int64_t beam = 3;   // Candidates that are kept.
  std::int64_t most = 20;  // Words, the last one included.
  std::int64_t start = 1;  // Words of the vocabulary: <s>
  std::int64_t end = 2;    // and </s>.
};

struct Sentence {
  std::vector<std::int64_t> words;  // Without the start and the end.
  double logProbability = 0;        // Of all words, and of the end if it came.
};

// One step for some candidates: given their states and last words (int64), the logarithms of the
// next words' probabilities (candidates x words); leaves the next states in `state`.
using BeamStep = std::function<torch::Tensor(LstmImpl::State& state, const torch::Tensor& words)>;

// From `state` (of one sample) on. The likeliest of the sentences that ended, or where none did, of
// those that were cut.
Sentence beamSearch(const LstmImpl::State& state, const BeamStep& step, const BeamOptions& options);

}  // namespace colla::models
