// A data set that lies in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "colla/dataset.h"

namespace colla {

// One field of all samples: row i of `array` belongs to sample i.
struct ArrayField {
  std::string name;
  Array array;
  // Bytes 0 … 255 are given out as float32 0 … 1 (value / 255, correctly rounded); `array` is
  // uint8.
  bool scaleToUnit = false;
};

// Batches are copies of rows, in memory that is used again once nobody holds it. Consecutive rows
// that start on a 64-byte boundary are not copied: the batch is a view of the data set's memory.
class ArrayDataset : public Dataset {
 public:
  // `title` says what it is. All arrays have the same number of rows, at least one; `classes` and
  // `symbols` as in Dataset. kInvalidArgument where they do not fit.
  static Result<std::shared_ptr<const ArrayDataset>> create(std::string title,
                                                            std::vector<ArrayField> fields,
                                                            std::int64_t classes = 0,
                                                            std::int64_t symbols = 0);

  std::int64_t size() const override { return fields_.front().array.rows(); }
  std::vector<Field> fields() const override;
  std::int64_t classes() const override { return classes_; }
  std::int64_t symbols() const override { return symbols_; }
  bool inMemory() const override { return true; }
  std::vector<Array> held() const override;
  Result<Batch> read(std::span<const std::int64_t> indices, Random& random) const override;
  std::string describe() const override;

 private:
  ArrayDataset(std::string title, std::vector<ArrayField> fields, std::int64_t classes,
               std::int64_t symbols);
  Result<Array> readField(const ArrayField& field, std::span<const std::int64_t> indices,
                          bool consecutive) const;

  std::string title_;
  std::vector<ArrayField> fields_;
  std::int64_t classes_;
  std::int64_t symbols_;
  mutable ArrayPool pool_;
};

}  // namespace colla
