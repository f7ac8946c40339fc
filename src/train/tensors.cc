#include "train/tensors.h"

#include <fmt/format.h>

#include "colla/error.h"

namespace colla::train {

DataType dataTypeOf(const torch::Tensor& tensor, const std::string& what) {
  switch (tensor.scalar_type()) {
    case torch::kFloat32:
      return DataType::kFloat32;
    case torch::kFloat64:
      return DataType::kFloat64;
    case torch::kBFloat16:
      return DataType::kBFloat16;
    case torch::kFloat16:
      return DataType::kFloat16;
    case torch::kInt8:
      return DataType::kInt8;
    case torch::kInt16:
      return DataType::kInt16;
    case torch::kInt32:
      return DataType::kInt32;
    case torch::kInt64:
      return DataType::kInt64;
    case torch::kUInt8:
      return DataType::kUInt8;
    case torch::kBool:
      return DataType::kBool;
    default:
      throw Error(StatusCode::kUnsupported,
                  fmt::format("{} is of type {}, which Colla does not move", what,
                              c10::toString(tensor.scalar_type())));
  }
}

torch::ScalarType scalarTypeOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return torch::kFloat32;
    case DataType::kFloat64:
      return torch::kFloat64;
    case DataType::kBFloat16:
      return torch::kBFloat16;
    case DataType::kFloat16:
      return torch::kFloat16;
    case DataType::kInt8:
      return torch::kInt8;
    case DataType::kInt16:
      return torch::kInt16;
    case DataType::kInt32:
      return torch::kInt32;
    case DataType::kInt64:
      return torch::kInt64;
    case DataType::kUInt8:
      return torch::kUInt8;
    case DataType::kBool:
      return torch::kBool;
  }
  return torch::kByte;
}

torch::Tensor asTensor(const Array& array) {
  return torch::from_blob(
      array.data(), array.shape(), [owner = array.owner()](void*) {}, scalarTypeOf(array.type()));
}

std::vector<torch::Tensor> asTensors(const Batch& batch) {
  std::vector<torch::Tensor> tensors;
  tensors.reserve(batch.size());
  for (const Array& array : batch) tensors.push_back(asTensor(array));
  return tensors;
}

Buffer memoryOf(const torch::Tensor& tensor, const std::string& what) {
  if (!tensor.is_cpu() || !tensor.is_contiguous()) {
    throw Error(StatusCode::kUnsupported,
                fmt::format("\"{}\" must be a contiguous tensor in this machine's memory", what));
  }
  return {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), dataTypeOf(tensor, what)};
}

}  // namespace colla::train
