#include "data/sparse/sparse_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/array_of.h"
#include "data/indices.h"

namespace colla::data {
namespace {

class SparseDataset : public Dataset {
 public:
  // `numbers` (int32) and `values` (float32) are the features of all rows, whose begins and labels
  // are `rows`.
  SparseDataset(std::string title, SparseRows rows, Array numbers, Array values,
                std::int64_t features, std::vector<std::string> labels)
      : title_(std::move(title)),
        rows_(std::move(rows)),
        numbers_(std::move(numbers)),
        values_(std::move(values)),
        features_(features),
        labels_(std::move(labels)) {}

  std::int64_t size() const override { return rows_.size(); }
  std::vector<Field> fields() const override {
    return {{"feature", DataType::kInt64, {-1}},
            {"value", DataType::kFloat32, {-1}},
            {"label", DataType::kInt64, {}}};
  }
  std::int64_t classes() const override { return static_cast<std::int64_t>(labels_.size()); }
  std::vector<std::string> words() const override { return labels_; }
  std::int64_t symbols() const override { return features_; }
  bool inMemory() const override { return true; }
  std::vector<Array> held() const override { return {numbers_, values_}; }
  Result<Batch> read(std::span<const std::int64_t> indices, Random& random) const override;
  std::string describe() const override {
    return fmt::format("{}: {}, {} features of which {:.1f} are not zero", title_,
                       describeSamples(*this), features_,
                       static_cast<double>(numbers_.count()) / static_cast<double>(size()));
  }

 private:
  std::string title_;
  SparseRows rows_;  // Begins and labels alone.
  Array numbers_;
  Array values_;
  std::int64_t features_;
  std::vector<std::string> labels_;
  mutable ArrayPool pool_;
};

Result<Batch> SparseDataset::read(std::span<const std::int64_t> indices, Random& /*random*/) const {
  COLLA_TRY(checkIndices(title_, indices, size()));
  std::int64_t longest = 1;
  for (const std::int64_t index : indices) {
    longest = std::max(longest, rows_.begins[index + 1] - rows_.begins[index]);
  }
  const auto count = static_cast<std::int64_t>(indices.size());
  COLLA_TRY_ASSIGN(Array features, pool_.allocate(DataType::kInt64, {count, longest}));
  COLLA_TRY_ASSIGN(Array values, pool_.allocate(DataType::kFloat32, {count, longest}));
  COLLA_TRY_ASSIGN(Array labels, pool_.allocate(DataType::kInt64, {count}));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = rows_.begins[indices[i]];
    const std::int64_t length = rows_.begins[indices[i] + 1] - begin;
    const auto featureRow = features.as<std::int64_t>().subspan(i * longest, longest);
    const auto valueRow = values.as<float>().subspan(i * longest, longest);
    std::copy_n(numbers_.as<std::int32_t>().begin() + begin, length, featureRow.begin());
    std::copy_n(values_.as<float>().begin() + begin, length, valueRow.begin());
    std::ranges::fill(featureRow.subspan(length), 0);
    std::ranges::fill(valueRow.subspan(length), 0.0F);
    labels.as<std::int64_t>()[i] = rows_.labels[indices[i]];
  }
  return Batch{std::move(features), std::move(values), std::move(labels)};
}

}  // namespace

Result<std::shared_ptr<const Dataset>> sparseDataset(std::string title, SparseRows rows,
                                                     std::int64_t features,
                                                     std::vector<std::string> labels) {
  if (rows.size() == 0) {
    return {StatusCode::kInvalidArgument, fmt::format("data set {}: has no samples", title)};
  }
  COLLA_TRY_ASSIGN(Array numbers, arrayOf(std::exchange(rows.features, {})));
  COLLA_TRY_ASSIGN(Array values, arrayOf(std::exchange(rows.values, {})));
  return std::make_shared<SparseDataset>(std::move(title), std::move(rows), std::move(numbers),
                                         std::move(values), features, std::move(labels));
}

}  // namespace colla::data
