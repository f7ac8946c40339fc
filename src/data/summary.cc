#include "data/summary.h"

#include <algorithm>
#include <limits>

namespace colla::data {
namespace {

struct Tally {
  double smallest = std::numeric_limits<double>::infinity();
  double largest = -std::numeric_limits<double>::infinity();
  double sum = 0;
  std::int64_t count = 0;

  template <typename T>
  void add(std::span<const T> values) {
    for (const T value : values) {
      const auto number = static_cast<double>(value);
      smallest = std::min(smallest, number);
      largest = std::max(largest, number);
      sum += number;
    }
    count += static_cast<std::int64_t>(values.size());
  }
  void add(const Array& array) {
    if (array.type() == DataType::kFloat32) add<float>(array.as<float>());
    if (array.type() == DataType::kInt64) add<std::int64_t>(array.as<std::int64_t>());
    if (array.type() == DataType::kUInt8) add<std::uint8_t>(array.as<std::uint8_t>());
  }
};

}  // namespace

Result<Summary> summarise(const Dataset& dataset, std::int64_t limit) {
  constexpr std::int64_t kBatch = 32;
  Summary summary;
  summary.samples = dataset.size();
  summary.lookedAt = std::min(limit, dataset.size());
  std::vector<Tally> tallies(dataset.fields().size());
  Random random(0);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < summary.lookedAt; ++i) {
    // Rounded down; no product that could overflow.
    indices.push_back(i * (summary.samples / summary.lookedAt));
    if (static_cast<std::int64_t>(indices.size()) < kBatch && i + 1 < summary.lookedAt) continue;
    COLLA_TRY_ASSIGN(const Batch batch, dataset.read(indices, random));
    for (std::size_t field = 0; field < batch.size(); ++field) tallies[field].add(batch[field]);
    indices.clear();
  }
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    FieldSummary& field = summary.fields.emplace_back();
    field.field = dataset.fields()[i];
    if (tallies[i].count == 0) continue;
    field.smallest = tallies[i].smallest;
    field.largest = tallies[i].largest;
    field.mean = tallies[i].sum / static_cast<double>(tallies[i].count);
  }
  return summary;
}

Result<double> readingSpeed(const Dataset& dataset, std::chrono::milliseconds time) {
  constexpr std::size_t kBatch = 64;
  using Clock = std::chrono::steady_clock;
  std::vector<std::int64_t> indices(kBatch);
  Random random(1);
  std::int64_t samples = 0;
  const auto begin = Clock::now();
  std::chrono::duration<double> passed{};
  do {
    for (auto& index : indices) index = static_cast<std::int64_t>(random.below(dataset.size()));
    COLLA_TRY_ASSIGN(const Batch batch, dataset.read(indices, random));
    samples += batch.front().rows();
    passed = Clock::now() - begin;
  } while (passed < time);
  return static_cast<double>(samples) / passed.count();
}

}  // namespace colla::data
