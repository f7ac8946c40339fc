// On the dispatch key that train/slice_random.cc switches on for a thread: see there.
#include "train/row_lookup.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace colla::train {
namespace {

constexpr auto kLookupKey = c10::DispatchKey::DeferredInit;

thread_local RowSource* current = nullptr;

torch::Tensor embedding(const torch::Tensor& weight, const torch::Tensor& indices,
                        std::int64_t padding, bool scaleByFrequency, bool sparse) {
  if (current != nullptr) current->refresh(weight, indices);
  const c10::impl::ExcludeDispatchKeyGuard guard(kLookupKey);
  return at::embedding(weight, indices, padding, scaleByFrequency, sparse);
}

torch::Tensor gather(const torch::Tensor& self, std::int64_t dimension, const torch::Tensor& index,
                     bool sparse) {
  if (current != nullptr && dimension == 0 && self.dim() == 1) current->refresh(self, index);
  const c10::impl::ExcludeDispatchKeyGuard guard(kLookupKey);
  return at::gather(self, dimension, index, sparse);
}

// For the rest of the process's life, as libtorch's own kernels are.
void registerLookups() {
  static torch::Library aten(torch::Library::IMPL, "aten", kLookupKey, __FILE__, __LINE__);
  aten.impl("embedding", embedding);
  aten.impl("gather", gather);
}

}  // namespace

RowLookup::RowLookup(RowSource* source) : outer_(current) {
  static const bool once = (registerLookups(), true);
  static_cast<void>(once);
  current = source;
}

RowLookup::~RowLookup() { current = outer_; }

}  // namespace colla::train
