// Fresh rows for lookups in tables that live on servers.
//
// While a RowLookup lives, libtorch's embedding and gather (those of this thread, inside a
// SliceRandom) call its source before they read a table: an unmodified torch::nn::Embedding works.
#pragma once

#include <torch/torch.h>

namespace colla::train {

class RowSource {
 public:
  virtual ~RowSource() = default;
  // Before rows with these numbers (any shape, repeated as they like) of a tensor are read. Tensors
  // that the source does not know are none of its business.
  virtual void refresh(const torch::Tensor& table, const torch::Tensor& rows) = 0;
};

class RowLookup {
 public:
  // `source` may be null: then nothing happens.
  explicit RowLookup(RowSource* source);
  ~RowLookup();
  RowLookup(const RowLookup&) = delete;
  RowLookup& operator=(const RowLookup&) = delete;

 private:
  RowSource* const outer_;
};

}  // namespace colla::train
