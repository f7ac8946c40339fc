#include "data/batch_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

namespace colla::data {
namespace {

bool fits(const Field& field, std::size_t rows, const Array& array) {
  const std::vector<std::int64_t>& shape = array.shape();
  if (array.type() != field.type || shape.size() != field.shape.size() + 1 ||
      shape[0] != static_cast<std::int64_t>(rows)) {
    return false;
  }
  for (std::size_t i = 0; i < field.shape.size(); ++i) {
    if (field.shape[i] >= 0 && field.shape[i] != shape[i + 1]) return false;
  }
  return true;
}

// "float32 100x1x28x28"
std::string shapeText(DataType type, std::span<const std::int64_t> shape) {
  std::vector<std::string> lengths;
  for (const std::int64_t length : shape) {
    lengths.push_back(length < 0 ? "?" : std::to_string(length));
  }
  return fmt::format("{} {}", toString(type), fmt::join(lengths, "x"));
}

// "100 samples (17, 4, 903, …)"
std::string samplesText(std::span<const std::int64_t> indices) {
  constexpr std::size_t kShown = 3;
  return fmt::format("{} sample{} ({}{})", indices.size(), indices.size() == 1 ? "" : "s",
                     fmt::join(indices.first(std::min(indices.size(), kShown)), ", "),
                     indices.size() > kShown ? ", …" : "");
}

}  // namespace

BatchCheck::BatchCheck(std::shared_ptr<const Dataset> dataset)
    : dataset_(std::move(dataset)), fields_(dataset_->fields()) {}

Status BatchCheck::check(std::span<const std::int64_t> indices, const Batch& batch) const {
  if (indices.empty() && batch.empty()) return {};
  if (batch.size() != fields_.size()) return wrongCount(indices, batch);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (!fits(fields_[i], indices.size(), batch[i])) return wrongField(indices, i, batch[i]);
  }
  return {};
}

Status BatchCheck::wrongCount(std::span<const std::int64_t> indices, const Batch& batch) const {
  std::vector<std::string_view> names;
  for (const Field& field : fields_) names.push_back(field.name);
  const std::string missing =
      batch.size() < fields_.size()
          ? fmt::format(": field {} ({}) is missing", batch.size(), names[batch.size()])
          : std::string();
  return {
      StatusCode::kInvalidArgument,
      fmt::format("data set \"{}\": read() of {} gave {} field{}, but fields() has {} ({}){}",
                  dataset_->describe(), samplesText(indices), batch.size(),
                  batch.size() == 1 ? "" : "s", fields_.size(), fmt::join(names, ", "), missing)};
}

Status BatchCheck::wrongField(std::span<const std::int64_t> indices, std::size_t field,
                              const Array& found) const {
  std::vector<std::int64_t> expected = fields_[field].shape;
  expected.insert(expected.begin(), static_cast<std::int64_t>(indices.size()));
  return {StatusCode::kInvalidArgument,
          fmt::format("data set \"{}\": read() of {} gave field {} ({}) as {}, expected {}",
                      dataset_->describe(), samplesText(indices), field, fields_[field].name,
                      shapeText(found.type(), found.shape()),
                      shapeText(fields_[field].type, expected))};
}

}  // namespace colla::data
