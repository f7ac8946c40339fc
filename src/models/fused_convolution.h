// Convolutions of protein letters with their maximum over all positions, for autograd. The work is
// in models/kernels, whose headers say how; decision 0008 says why.
//
// For float32 and float64 weights. The convolution and its backward have the same bits for every
// number of threads; the normalisation has those of libtorch's matrix product.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "models/kernels/letter_pairs.h"
#include "models/kernels/letters.h"

namespace colla::models {

// A batch of sequences, as all convolutions of a model share it. To be used by one thread.
class LetterBatch : public torch::CustomClassHolder {
 public:
  // `sequence` is uint8, samples x length; windows are no longer than `longest`. Throws
  // colla::Error for numbers that are no letters.
  LetterBatch(const torch::Tensor& sequence, std::int64_t longest);

  const kernels::Letters& letters() const { return *letters_; }
  // Counted at the first call: only batch normalisation needs it.
  const kernels::LetterPairs& pairs();

 private:
  const std::shared_ptr<const kernels::Letters> letters_;
  const std::int64_t longest_;
  std::unique_ptr<const kernels::LetterPairs> pairs_;
};
using LetterBatchPtr = c10::intrusive_ptr<LetterBatch>;

// Samples x filters. `weight` is Conv1d's, filters x classes x window; the bias, which changes no
// order, is left to the caller.
torch::Tensor maxConvolution(const LetterBatchPtr& batch, const torch::Tensor& weight);

// The same, normalised: minus the mean of the convolution over all positions of all samples, over
// the root of its variance and `epsilon`. Normalising and ReLU keep the order, so that the maximum
// may come first.
struct Normalised {
  torch::Tensor value;     // Samples x filters.
  torch::Tensor mean;      // Filters; not differentiable, nor is the variance.
  torch::Tensor variance;  // Divided by the number of positions.
  std::int64_t positions;  // Of all samples together.
};
Normalised normalisedMaxConvolution(const LetterBatchPtr& batch, const torch::Tensor& weight,
                                    double epsilon);

}  // namespace colla::models
