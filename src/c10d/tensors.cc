#include "c10d/tensors.h"

#include <algorithm>
#include <optional>

namespace colla::c10d {
namespace {

std::optional<DataType> dataTypeOf(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DataType::kFloat32;
    case at::kDouble:
      return DataType::kFloat64;
    case at::kBFloat16:
      return DataType::kBFloat16;
    case at::kHalf:
      return DataType::kFloat16;
    case at::kChar:
      return DataType::kInt8;
    case at::kShort:
      return DataType::kInt16;
    case at::kInt:
      return DataType::kInt32;
    case at::kLong:
      return DataType::kInt64;
    case at::kByte:
      return DataType::kUInt8;
    case at::kBool:
      return DataType::kBool;
    default:
      return std::nullopt;
  }
}

const char* nameOf(const ::c10d::ReduceOp& op) {
  switch (op.op_) {
    case ::c10d::ReduceOp::SUM:
      return "SUM";
    case ::c10d::ReduceOp::AVG:
      return "AVG";
    case ::c10d::ReduceOp::PRODUCT:
      return "PRODUCT";
    case ::c10d::ReduceOp::MIN:
      return "MIN";
    case ::c10d::ReduceOp::MAX:
      return "MAX";
    case ::c10d::ReduceOp::BAND:
      return "BAND";
    case ::c10d::ReduceOp::BOR:
      return "BOR";
    case ::c10d::ReduceOp::BXOR:
      return "BXOR";
    case ::c10d::ReduceOp::PREMUL_SUM:
      return "PREMUL_SUM";
    default:
      return "an unknown one";
  }
}

std::size_t bytesOf(const at::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
}

bool isIntegerAverage(const ::c10d::ReduceOp& op, const at::Tensor& tensor) {
  return op.op_ == ::c10d::ReduceOp::AVG &&
         at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false);
}

// One tensor on the memory of several that lie one behind the other, if they do.
at::Tensor asOne(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() == 1 && tensors[0].is_contiguous() && !tensors[0].is_conj() &&
      !tensors[0].is_neg()) {
    return tensors[0].view({-1});
  }
  std::int64_t total = 0;
  const auto* next = static_cast<const std::byte*>(tensors[0].const_data_ptr());
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg() || tensor.numel() == 0 ||
        !tensor.is_alias_of(tensors[0]) || tensor.const_data_ptr() != next) {
      return {};
    }
    next += bytesOf(tensor);
    total += tensor.numel();
  }
  return tensors[0].as_strided({total}, {1});
}

}  // namespace

at::Tensor packed(const at::Tensor& tensor) {
  return tensor.resolve_conj().resolve_neg().contiguous();
}

void unpack(const at::Tensor& from, const at::Tensor& tensor) {
  if (!from.is_same(tensor)) tensor.copy_(from);
}

at::Tensor flatLike(const std::vector<at::Tensor>& tensors) {
  if (at::Tensor one = asOne(tensors); one.defined()) return one;
  std::int64_t total = 0;
  for (const at::Tensor& tensor : tensors) total += tensor.numel();
  return at::empty({total}, tensors[0].options());
}

at::Tensor flatten(const std::vector<at::Tensor>& tensors) {
  if (at::Tensor one = asOne(tensors); one.defined()) return one;
  std::vector<at::Tensor> rows;
  rows.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) rows.push_back(tensor.reshape({-1}));
  return packed(at::cat(rows));
}

void unflatten(const at::Tensor& flat, const std::vector<at::Tensor>& tensors) {
  if (asOne(tensors).defined()) return;
  std::int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() > 0) tensor.copy_(flat.narrow(0, offset, tensor.numel()).view_as(tensor));
    offset += tensor.numel();
  }
}

Buffer memoryOf(const at::Tensor& tensor) {
  const auto type = dataTypeOf(tensor.scalar_type());
  if (!type) return {tensor.data_ptr(), bytesOf(tensor), DataType::kUInt8};
  return {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), *type};
}

Buffer numbersOf(const at::Tensor& tensor, const ::c10d::ReduceOp& op, const char* what) {
  TORCH_CHECK(op.op_ != ::c10d::ReduceOp::PREMUL_SUM && op.op_ < ::c10d::ReduceOp::UNUSED,
              "colla: ", what, ": Cannot use ReduceOp.", nameOf(op), " with colla");
  const bool complex = tensor.is_complex();
  TORCH_CHECK(!complex || ::c10d::isComplexViewAsRealAllowed(op), "colla: ", what,
              " does not support ReduceOp.", nameOf(op), " on complex tensors");
  const bool fraction = tensor.is_floating_point() || complex;
  TORCH_CHECK(op.op_ != ::c10d::ReduceOp::AVG || tensor.scalar_type() != at::kBool, "colla: ", what,
              ": Cannot use ReduceOp.AVG with ", tensor.scalar_type());
  TORCH_CHECK(!isBitwise(op) || !fraction, "colla: ", what, ": Cannot use ReduceOp.", nameOf(op),
              " with non-integral dtype ", tensor.scalar_type());
  const auto type =
      dataTypeOf(complex ? c10::toRealValueType(tensor.scalar_type()) : tensor.scalar_type());
  TORCH_CHECK(type.has_value(), "colla: ", what, ": Invalid scalar type ", tensor.scalar_type());
  const std::int64_t count = complex ? 2 * tensor.numel() : tensor.numel();
  return {tensor.data_ptr(), static_cast<std::size_t>(count), *type};
}

ReduceOp reduceOp(const ::c10d::ReduceOp& op, const at::Tensor& tensor) {
  switch (op.op_) {
    case ::c10d::ReduceOp::AVG:
      return isIntegerAverage(op, tensor) ? ReduceOp::kSum : ReduceOp::kAverage;
    case ::c10d::ReduceOp::PRODUCT:
      return ReduceOp::kProduct;
    case ::c10d::ReduceOp::MIN:
      return ReduceOp::kMin;
    case ::c10d::ReduceOp::MAX:
      return ReduceOp::kMax;
    default:
      return ReduceOp::kSum;
  }
}

bool isBitwise(const ::c10d::ReduceOp& op) {
  return op.op_ == ::c10d::ReduceOp::BAND || op.op_ == ::c10d::ReduceOp::BOR ||
         op.op_ == ::c10d::ReduceOp::BXOR;
}

void finishAverage(const at::Tensor& tensor, const ::c10d::ReduceOp& op, int ranks) {
  if (!isIntegerAverage(op, tensor)) return;
  // As 64 bits: the number of ranks need not fit the type, which ends at 127 for int8.
  tensor.copy_(tensor.to(at::kLong).div_(ranks, "trunc"));
}

void foldInto(at::Tensor& target, const at::Tensor& other, const ::c10d::ReduceOp& op) {
  switch (op.op_) {
    case ::c10d::ReduceOp::PRODUCT:
      target.mul_(other);
      break;
    case ::c10d::ReduceOp::MIN:
      at::minimum_out(target, target, other);
      break;
    case ::c10d::ReduceOp::MAX:
      at::maximum_out(target, target, other);
      break;
    case ::c10d::ReduceOp::BAND:
      target.bitwise_and_(other);
      break;
    case ::c10d::ReduceOp::BOR:
      target.bitwise_or_(other);
      break;
    case ::c10d::ReduceOp::BXOR:
      target.bitwise_xor_(other);
      break;
    default:
      target.add_(other);
      break;
  }
}

}  // namespace colla::c10d
