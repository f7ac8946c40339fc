// Whether a batch is what its data set says that samples are: Dataset::read against
// Dataset::fields().
//
// A program's own read() that gives a row too few or a type of its own would train on other samples
// than it claims. To compare a few numbers for each batch costs nothing beside a step.
//
// Thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "colla/dataset.h"
#include "colla/status.h"

namespace colla::data {

class BatchCheck {
 public:
  explicit BatchCheck(std::shared_ptr<const Dataset> dataset);

  // kInvalidArgument, with data set, field, samples, expected and found, where `batch` is not of
  // the samples `indices`: fewer fields, other rows, another shape or type. No samples may also be
  // a batch without arrays.
  Status check(std::span<const std::int64_t> indices, const Batch& batch) const;

 private:
  Status wrongCount(std::span<const std::int64_t> indices, const Batch& batch) const;
  Status wrongField(std::span<const std::int64_t> indices, std::size_t field,
                    const Array& found) const;

  const std::shared_ptr<const Dataset> dataset_;
  const std::vector<Field> fields_;
};

}  // namespace colla::data
