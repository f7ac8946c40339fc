// Python's end of TFRecord files and tf.Examples: data/record does the work, this file converts
// values. Fast paths are those of what rows are made of: lists of Python's numbers, arrays with the
// buffer protocol, bytes.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/record/example.h"
#include "data/record/record_file.h"
#include "python/bind.h"
#include "python/raise.h"

namespace colla::python {
namespace {

namespace py = pybind11;
using data::Example;
using data::Feature;
using data::FeatureKind;

constexpr std::array<std::pair<FeatureKind, std::string_view>, 3> kKinds = {{
    {FeatureKind::kBytes, "bytes"},
    {FeatureKind::kFloats, "float"},
    {FeatureKind::kIntegers, "int64"},
}};

std::string typeName(py::handle value) { return Py_TYPE(value.ptr())->tp_name; }

// Of bytes or a bytearray; nothing for anything else. It lies in the object.
std::optional<std::string_view> bytesOf(py::handle value) {
  if (PyBytes_Check(value.ptr())) {
    return std::string_view(PyBytes_AS_STRING(value.ptr()),
                            static_cast<std::size_t>(PyBytes_GET_SIZE(value.ptr())));
  }
  if (PyByteArray_Check(value.ptr())) {
    return std::string_view(PyByteArray_AS_STRING(value.ptr()),
                            static_cast<std::size_t>(PyByteArray_GET_SIZE(value.ptr())));
  }
  return std::nullopt;
}

std::int64_t writeRecords(const std::string& path, const py::iterable& records) {
  auto writer = valueOrRaise(data::RecordWriter::create(path));
  std::int64_t count = 0;
  for (const py::handle record : records) {
    const auto bytes = bytesOf(record);
    if (!bytes) {
      throw py::type_error(
          fmt::format("record {} of {} is of type {}, not bytes", count, path, typeName(record)));
    }
    if (const Status status = writer.append(std::as_bytes(std::span(*bytes))); !status.ok()) {
      raise(status);
    }
    ++count;
  }
  const auto close = [&writer] {
    const py::gil_scoped_release unlocked;
    return writer.close();
  };
  if (const Status status = close(); !status.ok()) raise(status);
  return count;
}

py::bytes nextRecord(data::RecordReader& reader) {
  const auto read = [&reader] {
    const py::gil_scoped_release unlocked;
    return reader.next();
  };
  const auto record = valueOrRaise(read());
  if (!record) throw py::stop_iteration();
  return {reinterpret_cast<const char*>(record->data()), record->size()};
}

// Appends what lies in memory, of elements that C++ calls Stored.
template <typename Stored, typename Value>
void append(const py::buffer_info& memory, std::vector<Value>& values) {
  const auto* place = static_cast<const char*>(memory.ptr);
  values.reserve(static_cast<std::size_t>(memory.size));
  for (py::ssize_t i = 0; i < memory.size; ++i, place += memory.strides[0]) {
    Stored value;
    std::memcpy(&value, place, sizeof(value));
    values.push_back(static_cast<Value>(value));
  }
}

bool appendMemory(const py::buffer_info& memory, std::vector<float>& values) {
  if (memory.item_type_is_equivalent_to<float>()) {
    append<float>(memory, values);
  } else if (memory.item_type_is_equivalent_to<double>()) {
    append<double>(memory, values);
  } else {
    return false;
  }
  return true;
}

bool appendMemory(const py::buffer_info& memory, std::vector<std::int64_t>& values) {
  if (memory.item_type_is_equivalent_to<std::int64_t>()) {
    append<std::int64_t>(memory, values);
  } else if (memory.item_type_is_equivalent_to<std::int32_t>()) {
    append<std::int32_t>(memory, values);
  } else if (memory.item_type_is_equivalent_to<std::uint8_t>()) {
    append<std::uint8_t>(memory, values);
  } else {
    return false;
  }
  return true;
}

// False, with Python's error set, for what is not a number of this kind.
bool appendOne(PyObject* value, std::vector<float>& values) {
  const double number = PyFloat_AsDouble(value);
  if (number == -1 && PyErr_Occurred() != nullptr) return false;
  values.push_back(static_cast<float>(number));
  return true;
}

bool appendOne(PyObject* value, std::vector<std::int64_t>& values) {
  const auto whole = py::reinterpret_steal<py::object>(PyNumber_Index(value));
  if (!whole) return false;
  const long long number = PyLong_AsLongLong(whole.ptr());
  if (number == -1 && PyErr_Occurred() != nullptr) return false;
  values.push_back(number);
  return true;
}

class ExampleWriter {
 public:
  void add(py::handle name, py::handle feature) {
    if (!PyUnicode_Check(name.ptr())) {
      throw py::type_error(fmt::format("a feature's name is of type {}, not str", typeName(name)));
    }
    name_ = name.cast<std::string>();
    if (!py::isinstance<py::tuple>(feature) && !py::isinstance<py::list>(feature)) wrongPair();
    const auto pair = py::reinterpret_borrow<py::sequence>(feature);
    if (pair.size() != 2) wrongPair();
    const FeatureKind kind = kindOf(pair[0]);
    Feature& made = features_[name_];
    made.kindIfEmpty = kind;
    const py::object values = pair[1];
    switch (kind) {
      case FeatureKind::kFloats:
        addNumbers(values, made.floats, "float");
        break;
      case FeatureKind::kIntegers:
        addNumbers(values, made.integers, "int64");
        break;
      default:
        addBytes(values, made.bytes);
    }
  }

  std::string bytes() const { return data::exampleOf(features_); }

 private:
  [[noreturn]] void wrongPair() const {
    throw py::type_error(fmt::format(
        "feature {} is not a pair of a kind (\"bytes\", \"float\" or \"int64\") and a list",
        name_));
  }
  [[noreturn]] void wrongValue(std::size_t index, py::handle value, std::string_view kind) const {
    throw py::type_error(fmt::format("value {} of feature {} is of type {}, not {}", index, name_,
                                     typeName(value), kind));
  }

  FeatureKind kindOf(const py::object& text) const {
    if (!PyUnicode_Check(text.ptr())) wrongPair();
    const auto wanted = text.cast<std::string_view>();
    for (const auto& [kind, name] : kKinds) {
      if (name == wanted) return kind;
    }
    throw py::value_error(fmt::format(
        "feature {} is of the kind \"{}\"; there are \"bytes\", \"float\" and \"int64\"", name_,
        wanted));
  }

  // Lists and tuples as they are; other sequences and arrays as lists of their elements.
  py::object listOf(const py::object& values) const {
    if (bytesOf(values) || PyUnicode_Check(values.ptr())) {
      throw py::type_error(
          fmt::format("the values of feature {} are one {}, not a list", name_, typeName(values)));
    }
    auto list = py::reinterpret_steal<py::object>(PySequence_Fast(values.ptr(), ""));
    if (!list) {
      PyErr_Clear();
      throw py::type_error(fmt::format("the values of feature {} are of type {}, not a list", name_,
                                       typeName(values)));
    }
    return list;
  }

  template <typename Value>
  void addNumbers(const py::object& values, std::vector<Value>& numbers, std::string_view kind) {
    if (!PyList_Check(values.ptr()) && PyObject_CheckBuffer(values.ptr()) != 0 &&
        !bytesOf(values)) {
      const py::buffer_info memory = py::reinterpret_borrow<py::buffer>(values).request();
      if (memory.ndim != 1) {
        throw py::value_error(fmt::format("the values of feature {} have {} dimensions, not one",
                                          name_, memory.ndim));
      }
      if (appendMemory(memory, numbers)) return;
    }
    const py::object list = listOf(values);
    const auto size = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(list.ptr()));
    numbers.reserve(size);
    for (std::size_t i = 0; i < size; ++i) {
      PyObject* const value = PySequence_Fast_GET_ITEM(list.ptr(), i);
      if (appendOne(value, numbers)) continue;
      const bool large = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
      PyErr_Clear();
      if (!large) wrongValue(i, value, kind);
      throw py::value_error(
          fmt::format("value {} of feature {} does not fit into {}", i, name_, kind));
    }
  }

  void addBytes(const py::object& values, std::vector<std::string_view>& texts) {
    keep_.push_back(listOf(values));
    const py::object& list = keep_.back();
    const auto size = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(list.ptr()));
    texts.reserve(size);
    for (std::size_t i = 0; i < size; ++i) {
      PyObject* const value = PySequence_Fast_GET_ITEM(list.ptr(), i);
      const auto text = bytesOf(value);
      if (!text) wrongValue(i, value, "bytes");
      texts.push_back(*text);
    }
  }

  std::string name_;  // Of the feature at hand, for errors.
  std::map<std::string, Feature> features_;
  std::vector<py::object> keep_;  // Texts lie in what these hold.
};

py::bytes encodeExample(const py::object& features) {
  ExampleWriter writer;
  const auto items = py::reinterpret_steal<py::object>(PyMapping_Items(features.ptr()));
  if (!items) {
    PyErr_Clear();
    throw py::type_error(
        fmt::format("the features are of type {}, not a dict", typeName(features)));
  }
  for (const py::handle item : items) {
    const auto pair = py::reinterpret_borrow<py::tuple>(item);
    writer.add(pair[0], pair[1]);
  }
  return writer.bytes();
}

// A list of one Python object for each value.
template <typename Value, typename Make>
py::list listFrom(const std::vector<Value>& values, const Make& make) {
  py::list list(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    PyObject* const made = make(values[i]);
    if (made == nullptr) throw py::error_already_set();
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), made);
  }
  return list;
}

py::object valuesOf(const Feature& feature) {
  switch (feature.kind()) {
    case FeatureKind::kFloats:
      return py::make_tuple(
          "float", listFrom(feature.floats, [](float value) { return PyFloat_FromDouble(value); }));
    case FeatureKind::kIntegers:
      return py::make_tuple("int64", listFrom(feature.integers, [](std::int64_t value) {
                              return PyLong_FromLongLong(value);
                            }));
    default:
      return py::make_tuple("bytes", listFrom(feature.bytes, [](std::string_view value) {
                              return PyBytes_FromStringAndSize(
                                  value.data(), static_cast<Py_ssize_t>(value.size()));
                            }));
  }
}

py::dict decodeExample(const py::object& record) {
  const auto bytes = bytesOf(record);
  if (!bytes) {
    throw py::type_error(fmt::format("a tf.Example is bytes, not of type {}", typeName(record)));
  }
  const auto example = Example::parse(std::as_bytes(std::span(*bytes)));
  if (!example.ok()) {
    throw py::value_error(fmt::format("this record {}", example.status().message()));
  }
  py::dict features;
  for (const auto& [name, feature] : example->features()) {
    const auto key = py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), nullptr));
    if (!key) {
      PyErr_Clear();
      throw py::value_error("this record is no tf.Example (the name of a feature is not UTF-8)");
    }
    features[key] = valuesOf(feature);
  }
  return features;
}

}  // namespace

void bindRecords(py::module_& module) {
  py::class_<data::RecordReader>(module, "RecordReader", py::module_local())
      .def(py::init([](std::string path) {
             return valueOrRaise(data::RecordReader::open(std::move(path)));
           }),
           py::arg("path"))
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &nextRecord);
  module.def("write_records", &writeRecords, py::arg("path"), py::arg("records"));
  module.def("encode_example", &encodeExample, py::arg("features"));
  module.def("decode_example", &decodeExample, py::arg("example"));
}

}  // namespace colla::python
