#include "python/memory.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <optional>
#include <string_view>
#include <utility>

#include "python/dlpack.h"

namespace colla::python {
namespace {

namespace py = pybind11;

Status notOurs(const std::string& what) {
  return {StatusCode::kInvalidArgument,
          fmt::format("\"{}\" must be a contiguous tensor in this machine's memory", what)};
}

Status notMoved(const std::string& what, std::string_view type) {
  return {StatusCode::kInvalidArgument,
          fmt::format("{} is of type {}, which Colla does not move", what, type)};
}

Status readOnly(const std::string& what) {
  return {StatusCode::kInvalidArgument,
          fmt::format("\"{}\" is read-only, but a result is to be written to it", what)};
}

std::optional<DataType> dataTypeOf(const dlpack::ElementType& type) {
  constexpr auto kTypes = std::to_array<std::pair<dlpack::ElementType, DataType>>({
      {{dlpack::kFloat, 32}, DataType::kFloat32},
      {{dlpack::kFloat, 64}, DataType::kFloat64},
      {{dlpack::kBFloat, 16}, DataType::kBFloat16},
      {{dlpack::kFloat, 16}, DataType::kFloat16},
      {{dlpack::kInt, 8}, DataType::kInt8},
      {{dlpack::kInt, 16}, DataType::kInt16},
      {{dlpack::kInt, 32}, DataType::kInt32},
      {{dlpack::kInt, 64}, DataType::kInt64},
      {{dlpack::kUInt, 8}, DataType::kUInt8},
      {{dlpack::kBool, 8}, DataType::kBool},
  });
  for (const auto& [known, ours] : kTypes) {
    if (known.code == type.code && known.bits == type.bits && type.lanes == 1) return ours;
  }
  return std::nullopt;
}

std::string nameOf(const dlpack::ElementType& type) {
  switch (type.code) {
    case dlpack::kInt:
      return fmt::format("int{}", type.bits);
    case dlpack::kUInt:
      return fmt::format("uint{}", type.bits);
    case dlpack::kFloat:
      return fmt::format("float{}", type.bits);
    case dlpack::kComplex:
      return fmt::format("complex{}", type.bits);
    default:
      return fmt::format("DLPack's {} with {} bits", type.code, type.bits);
  }
}

// Row-major without gaps. Strides of dimensions with one element do not matter.
bool isContiguous(const dlpack::Tensor& tensor, std::int64_t elements) {
  if (tensor.strides == nullptr || elements == 0) return true;
  std::int64_t expected = 1;
  for (std::int32_t i = tensor.dimensions - 1; i >= 0; --i) {
    if (tensor.shape[i] == 1) continue;
    if (tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

Result<ArrayMemory> described(const dlpack::Tensor& tensor, py::object keep,
                              const std::string& what) {
  ArrayMemory memory;
  memory.keep = std::move(keep);
  std::int64_t elements = 1;
  for (std::int32_t i = 0; i < tensor.dimensions; ++i) {
    memory.shape.push_back(tensor.shape[i]);
    elements *= tensor.shape[i];
  }
  if (tensor.device.type != dlpack::kCpu || !isContiguous(tensor, elements)) return notOurs(what);
  const auto type = dataTypeOf(tensor.type);
  if (!type.has_value()) return notMoved(what, nameOf(tensor.type));
  memory.type = *type;
  auto* const data = static_cast<std::byte*>(tensor.data);
  memory.bytes = {elements == 0 ? data : data + tensor.offset,
                  static_cast<std::size_t>(elements) * sizeOf(*type)};
  return memory;
}

// The table of C functions of the array's framework; null if it has none.
const dlpack::ExchangeApi* exchangeApiOf(py::handle array) {
  static PyObject* const kName = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(array.ptr()));
  const auto capsule = py::reinterpret_steal<py::object>(PyObject_GetAttr(type, kName));
  if (!capsule) {
    PyErr_Clear();
    return nullptr;
  }
  const auto* api = static_cast<const dlpack::ExchangeApi*>(
      PyCapsule_GetPointer(capsule.ptr(), dlpack::kExchangeCapsule));
  if (api == nullptr) PyErr_Clear();
  while (api != nullptr && api->version.major != dlpack::kMajor) api = api->older;
  return api != nullptr && api->describe != nullptr ? api : nullptr;
}

std::optional<DataType> dataTypeOf(const Py_buffer& buffer) {
  std::string_view format = buffer.format == nullptr ? "B" : buffer.format;
  if (!format.empty() && (format[0] == '@' || format[0] == '=' ||
                          (format[0] == '<' && std::endian::native == std::endian::little))) {
    format.remove_prefix(1);
  }
  if (format.size() != 1) return std::nullopt;
  const auto bits = static_cast<std::uint8_t>(buffer.itemsize * 8);
  switch (format[0]) {
    case 'e':
    case 'f':
    case 'd':
      return dataTypeOf(dlpack::ElementType{dlpack::kFloat, bits});
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      return dataTypeOf(dlpack::ElementType{dlpack::kInt, bits});
    case 'B':
    case 'c':
      return DataType::kUInt8;
    case '?':
      return DataType::kBool;
    default:
      return std::nullopt;
  }
}

Result<ArrayMemory> fromBuffer(py::handle array, const std::string& what, Access access) {
  auto view = py::reinterpret_steal<py::object>(PyMemoryView_FromObject(array.ptr()));
  if (!view) throw py::error_already_set();
  const Py_buffer& buffer = *PyMemoryView_GET_BUFFER(view.ptr());
  const auto type = dataTypeOf(buffer);
  if (!type.has_value()) return notMoved(what, buffer.format);
  if (PyBuffer_IsContiguous(&buffer, 'C') == 0) return notOurs(what);
  if (access == Access::kWrite && buffer.readonly != 0) return readOnly(what);
  ArrayMemory memory;
  memory.type = *type;
  for (int i = 0; i < buffer.ndim; ++i) memory.shape.push_back(buffer.shape[i]);
  memory.bytes = {static_cast<std::byte*>(buffer.buf), static_cast<std::size_t>(buffer.len)};
  memory.keep = std::move(view);
  return memory;
}

// The capsule owns the memory until somebody takes it over, which we do not.
Result<ArrayMemory> fromCapsule(py::object capsule, const std::string& what, Access access) {
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::kVersionedCapsule) != 0) {
    const auto* const versioned = static_cast<const dlpack::VersionedTensor*>(
        PyCapsule_GetPointer(capsule.ptr(), dlpack::kVersionedCapsule));
    if (versioned->version.major != dlpack::kMajor) {
      return {StatusCode::kInvalidArgument,
              fmt::format("\"{}\" comes with version {} of DLPack, but Colla knows version {}",
                          what, versioned->version.major, dlpack::kMajor)};
    }
    if (access == Access::kWrite && (versioned->flags & dlpack::kReadOnly) != 0) {
      return readOnly(what);
    }
    return described(versioned->tensor, std::move(capsule), what);
  }
  const auto* const legacy = static_cast<const dlpack::LegacyTensor*>(
      PyCapsule_GetPointer(capsule.ptr(), dlpack::kLegacyCapsule));
  if (legacy == nullptr) throw py::error_already_set();
  return described(legacy->tensor, std::move(capsule), what);
}

py::object capsuleOf(py::handle array) {
  const py::object method = array.attr("__dlpack__");
  try {
    return method(py::arg("max_version") = py::make_tuple(dlpack::kMajor, dlpack::kMinor));
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return method();  // It is older than versions are.
}

}  // namespace

// The table of C functions is the quickest way. The buffer protocol comes next, because it is plain
// C as well, but it has no bfloat16.
Result<ArrayMemory> memoryOf(py::handle array, const std::string& what, Access access) {
  if (const auto* const api = exchangeApiOf(array)) {
    dlpack::Tensor tensor;
    if (api->describe(array.ptr(), &tensor) != 0) throw py::error_already_set();
    return described(tensor, py::reinterpret_borrow<py::object>(array), what);
  }
  const bool lends = py::hasattr(array, "__dlpack__");
  if (PyObject_CheckBuffer(array.ptr()) != 0) {
    auto memory = fromBuffer(array, what, access);
    if (memory.ok() || !lends) return memory;
  }
  if (lends) return fromCapsule(capsuleOf(array), what, access);
  return {StatusCode::kInvalidArgument,
          fmt::format("\"{}\" is a {}, which offers neither DLPack nor the buffer protocol", what,
                      Py_TYPE(array.ptr())->tp_name)};
}

}  // namespace colla::python
