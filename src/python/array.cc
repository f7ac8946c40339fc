// Arrays that Colla made, such as the results of a gathering: any framework takes them over without
// a copy, with its from_dlpack() or through the buffer protocol.
#include "colla/array.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "python/bind.h"
#include "python/dlpack.h"

namespace colla::python {
namespace {

namespace py = pybind11;

dlpack::ElementType elementTypeOf(DataType type) {
  const auto bits = static_cast<std::uint8_t>(sizeOf(type) * 8);
  switch (type) {
    case DataType::kFloat32:
    case DataType::kFloat64:
    case DataType::kFloat16:
      return {dlpack::kFloat, bits};
    case DataType::kBFloat16:
      return {dlpack::kBFloat, bits};
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
      return {dlpack::kInt, bits};
    case DataType::kUInt8:
      return {dlpack::kUInt, bits};
    case DataType::kBool:
      return {dlpack::kBool, bits};
  }
  return {};
}

// Format characters of Python's struct module.
const char* formatOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "f";
    case DataType::kFloat64:
      return "d";
    case DataType::kFloat16:
      return "e";
    case DataType::kInt8:
      return "b";
    case DataType::kInt16:
      return "h";
    case DataType::kInt32:
      return "i";
    case DataType::kInt64:
      return "q";
    case DataType::kUInt8:
      return "B";
    case DataType::kBool:
      return "?";
    case DataType::kBFloat16:
      break;
  }
  throw py::buffer_error("the buffer protocol has no bfloat16: use from_dlpack()");
}

std::vector<std::int64_t> stridesOf(const Array& array) {
  std::vector<std::int64_t> strides(array.shape().size());
  std::int64_t next = 1;
  for (std::size_t i = strides.size(); i-- > 0;) {
    strides[i] = next;
    next *= array.shape()[i];
  }
  return strides;
}

py::buffer_info bufferOf(const Array& array) {
  const auto bytes = static_cast<py::ssize_t>(sizeOf(array.type()));
  std::vector<py::ssize_t> strides;
  for (const std::int64_t stride : stridesOf(array)) strides.push_back(stride * bytes);
  return {array.data(),
          bytes,
          formatOf(array.type()),
          static_cast<py::ssize_t>(array.shape().size()),
          {array.shape().begin(), array.shape().end()},
          strides};
}

// What one consumer holds: a share of the memory, and its description.
template <typename Managed>
struct Loan {
  explicit Loan(Array lent)
      : array(std::move(lent)), shape(array.shape()), strides(stridesOf(array)) {
    managed.tensor.data = array.data();
    managed.tensor.dimensions = static_cast<std::int32_t>(shape.size());
    managed.tensor.type = elementTypeOf(array.type());
    managed.tensor.shape = shape.data();
    managed.tensor.strides = strides.data();
    managed.context = this;
    managed.deleter = [](Managed* self) { delete static_cast<Loan*>(self->context); };
  }

  Array array;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  Managed managed;
};

template <typename Managed, const char* const* kName>
py::object capsuleFor(const Array& array) {
  auto loan = std::make_unique<Loan<Managed>>(array);
  // A consumer gives the capsule a different name and calls the deleter itself.
  PyObject* const capsule = PyCapsule_New(&loan->managed, *kName, [](PyObject* self) {
    if (PyCapsule_IsValid(self, *kName) == 0) return;
    auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(self, *kName));
    managed->deleter(managed);
  });
  if (capsule == nullptr) throw py::error_already_set();
  static_cast<void>(loan.release());
  return py::reinterpret_steal<py::object>(capsule);
}

py::object lend(const Array& array, const py::object& stream,
                const std::optional<std::pair<std::uint32_t, std::uint32_t>>& maxVersion,
                const std::optional<std::pair<int, int>>& device, std::optional<bool> copy) {
  if (!stream.is_none() ||
      device.value_or(std::pair<int, int>(dlpack::kCpu, 0)).first != dlpack::kCpu) {
    throw py::buffer_error("the array is in this machine's memory, and on no device");
  }
  if (copy.value_or(false)) throw py::buffer_error("the array is lent, not copied");
  if (maxVersion.has_value() && maxVersion->first >= dlpack::kMajor) {
    return capsuleFor<dlpack::VersionedTensor, &dlpack::kVersionedCapsule>(array);
  }
  return capsuleFor<dlpack::LegacyTensor, &dlpack::kLegacyCapsule>(array);
}

}  // namespace

void bindArray(py::module_& module) {
  py::class_<Array>(module, "Array", py::buffer_protocol(), py::module_local())
      .def_buffer(&bufferOf)
      .def_property_readonly("shape",
                             [](const Array& self) { return py::tuple(py::cast(self.shape())); })
      .def_property_readonly("dtype", [](const Array& self) { return toString(self.type()); })
      .def("__dlpack__", &lend, py::kw_only(), py::arg("stream") = py::none(),
           py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(),
           py::arg("copy") = py::none())
      .def("__dlpack_device__", [](const Array&) { return std::pair<int, int>(dlpack::kCpu, 0); });
}

}  // namespace colla::python
