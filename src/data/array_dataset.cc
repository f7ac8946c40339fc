#include "colla/array_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/gather.h"
#include "data/indices.h"

namespace colla {
namespace {

std::vector<std::int64_t> shapeOfRow(const Array& array) {
  return {array.shape().begin() + 1, array.shape().end()};
}

bool areConsecutive(std::span<const std::int64_t> indices) {
  for (std::size_t i = 1; i < indices.size(); ++i) {
    if (indices[i] != indices[i - 1] + 1) return false;
  }
  return true;
}

}  // namespace

Result<std::shared_ptr<const ArrayDataset>> ArrayDataset::create(std::string title,
                                                                 std::vector<ArrayField> fields,
                                                                 std::int64_t classes,
                                                                 std::int64_t symbols) {
  const auto refuse = [&title](std::string why) {
    return Status(StatusCode::kInvalidArgument, fmt::format("data set {}: {}", title, why));
  };
  if (fields.empty()) return refuse("has no fields");
  for (const auto& [name, array, scaleToUnit] : fields) {
    if (array.shape().empty()) return refuse(fmt::format("field {} has no rows", name));
    if (array.rows() == 0) return refuse(fmt::format("field {} has no samples", name));
    if (array.rows() != fields.front().array.rows()) {
      return refuse(fmt::format("field {} has {} samples, field {} has {}", name, array.rows(),
                                fields.front().name, fields.front().array.rows()));
    }
    if (scaleToUnit && array.type() != DataType::kUInt8) {
      return refuse(fmt::format("field {} is {}; only uint8 is scaled to 0 … 1", name,
                                toString(array.type())));
    }
  }
  return std::shared_ptr<const ArrayDataset>(
      new ArrayDataset(std::move(title), std::move(fields), classes, symbols));
}

ArrayDataset::ArrayDataset(std::string title, std::vector<ArrayField> fields, std::int64_t classes,
                           std::int64_t symbols)
    : title_(std::move(title)), fields_(std::move(fields)), classes_(classes), symbols_(symbols) {}

std::vector<Field> ArrayDataset::fields() const {
  std::vector<Field> fields;
  for (const auto& [name, array, scaleToUnit] : fields_) {
    fields.push_back({name, scaleToUnit ? DataType::kFloat32 : array.type(), shapeOfRow(array)});
  }
  return fields;
}

Result<Batch> ArrayDataset::read(std::span<const std::int64_t> indices, Random& /*random*/) const {
  COLLA_TRY(data::checkIndices(title_, indices, size()));
  const bool consecutive = areConsecutive(indices);
  Batch batch;
  batch.reserve(fields_.size());
  for (const ArrayField& field : fields_) {
    COLLA_TRY_ASSIGN(Array array, readField(field, indices, consecutive));
    batch.push_back(std::move(array));
  }
  return batch;
}

Result<Array> ArrayDataset::readField(const ArrayField& field,
                                      std::span<const std::int64_t> indices,
                                      bool consecutive) const {
  const Array& all = field.array;
  std::vector<std::int64_t> shape = all.shape();
  shape.front() = static_cast<std::int64_t>(indices.size());
  const std::size_t rowBytes = all.bytes().size() / all.rows();
  const std::size_t offset = indices.empty() ? 0 : indices.front() * rowBytes;

  if (field.scaleToUnit) {
    COLLA_TRY_ASSIGN(Array batch, pool_.allocate(DataType::kFloat32, std::move(shape)));
    float* result = batch.as<float>().data();
    if (consecutive) {
      data::scaleToUnit(all.data() + offset, batch.count(), result);
    } else {
      data::gatherRowsAsUnit(all.data(), rowBytes, indices, result);
    }
    return batch;
  }

  if (consecutive && offset % Array::kAlignment == 0) {
    return Array::view(all.owner(), all.data() + offset, all.type(), std::move(shape));
  }
  COLLA_TRY_ASSIGN(Array batch, pool_.allocate(all.type(), std::move(shape)));
  if (consecutive) {
    std::copy_n(all.data() + offset, batch.bytes().size(), batch.data());
  } else {
    data::gatherRows(all.data(), rowBytes, indices, batch.data());
  }
  return batch;
}

std::vector<Array> ArrayDataset::held() const {
  std::vector<Array> arrays;
  for (const ArrayField& field : fields_) arrays.push_back(field.array);
  return arrays;
}

std::string ArrayDataset::describe() const {
  return fmt::format("{}: {}", title_, describeSamples(*this));
}

}  // namespace colla
