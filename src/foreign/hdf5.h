// The data sets in an HDF5 file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/tensor_view.h"
#include "colla/status.h"

namespace colla::foreign {

struct DataSet {
  std::string name;  // Its path in the file, without a slash in front.
  DataType type = DataType::kFloat32;
  std::string foreignType;  // As ListedTensor has it.
  checkpoint::Shape shape;
  std::vector<std::byte> bytes;
};

// All of them, in any order. kUnsupported for types that cannot be shown as numbers.
Result<std::vector<DataSet>> readHdf5(const std::string& path);
// The same for a file in memory, which `path` names in errors.
Result<std::vector<DataSet>> readHdf5(const std::string& path, std::span<std::byte> file);

}  // namespace colla::foreign
