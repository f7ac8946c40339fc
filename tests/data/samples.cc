#include "data/samples.h"

#include <numeric>
#include <stdexcept>

#include "base/crc32c.h"

namespace colla::data {

Batch readSome(const Dataset& dataset, const std::vector<std::int64_t>& indices,
               std::uint64_t seed) {
  Random random(seed);
  auto batch = dataset.read(indices, random);
  if (!batch.ok()) throw std::runtime_error(toString(batch.status()));
  return *std::move(batch);
}

Batch readAll(const Dataset& dataset, std::uint64_t seed) {
  std::vector<std::int64_t> indices(dataset.size());
  std::iota(indices.begin(), indices.end(), 0);
  return readSome(dataset, indices, seed);
}

std::uint32_t checksum(const Dataset& dataset) {
  std::uint32_t crc = 0;
  for (const Array& array : readAll(dataset)) crc = crc32c(array.bytes(), crc);
  return crc;
}

std::shared_ptr<const Dataset> opened(std::string_view name, Part part,
                                      const ReadOptions& options) {
  auto dataset = openDataset(name, part, options);
  if (!dataset.ok()) throw std::runtime_error(toString(dataset.status()));
  return *std::move(dataset);
}

std::string refusal(std::string_view name, Part part, const ReadOptions& options) {
  const auto dataset = openDataset(name, part, options);
  if (dataset.ok()) throw std::runtime_error(std::string(name) + " was opened");
  return toString(dataset.status());
}

}  // namespace colla::data
