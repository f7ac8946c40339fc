#include "foreign/hdf5.h"

#include <fmt/format.h>
#include <hdf5.h>

#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "foreign/damaged.h"
#include "foreign/messages.h"
#include "foreign/widen.h"

namespace colla::foreign {
namespace {

// A handle of the library's, with the function that closes it.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (valid()) (void)close_(id_);
  }
  bool valid() const { return id_ >= 0; }
  operator hid_t() const { return id_; }  // NOLINT(google-explicit-constructor): as the library's.

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

bool isBFloat16(hid_t set) {
  if (H5Aexists(set, "dtype") <= 0) return false;
  const Handle attribute(H5Aopen(set, "dtype", H5P_DEFAULT), &H5Aclose);
  if (!attribute.valid()) return false;
  const Handle type(H5Aget_type(attribute), &H5Tclose);
  constexpr std::string_view kName = "bfloat16";
  if (!type.valid() || H5Tget_class(type) != H5T_STRING) return false;
  if (H5Tis_variable_str(type) > 0) {
    char* text = nullptr;
    if (H5Aread(attribute, type, &text) < 0 || text == nullptr) return false;
    const bool same = kName == text;
    (void)H5free_memory(text);
    return same;
  }
  std::string text(H5Tget_size(type), '\0');
  return H5Aread(attribute, type, text.data()) >= 0 && text.substr(0, kName.size()) == kName;
}

// What the elements of a set become; `type` is as they lie in the file, but little-endian.
struct Reading {
  DataType type;
  std::string_view foreignType{};
  std::size_t widenFrom = 0;  // 2 or 4 bytes, unsigned.
};

std::optional<Reading> readingOf(hid_t set, hid_t type) {
  const std::size_t size = H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_FLOAT: {
      std::size_t sign = 0;
      std::size_t exponentAt = 0;
      std::size_t exponent = 0;
      std::size_t fractionAt = 0;
      std::size_t fraction = 0;
      if (H5Tget_fields(type, &sign, &exponentAt, &exponent, &fractionAt, &fraction) < 0) break;
      if (size == 8 && exponent == 11) return Reading{DataType::kFloat64};
      if (size == 4 && exponent == 8) return Reading{DataType::kFloat32};
      if (size == 2 && exponent == 8) return Reading{DataType::kBFloat16};
      if (size == 2 && exponent == 5) return Reading{DataType::kFloat16};
      break;
    }
    case H5T_INTEGER: {
      const bool isSigned = H5Tget_sign(type) == H5T_SGN_2;
      if (size == 1) return Reading{isSigned ? DataType::kInt8 : DataType::kUInt8};
      if (size == 2 && isSigned) return Reading{DataType::kInt16};
      if (size == 4 && isSigned) return Reading{DataType::kInt32};
      if (size == 8 && isSigned) return Reading{DataType::kInt64};
      if (size == 2) return Reading{DataType::kInt32, "uint16", 2};
      if (size == 4) return Reading{DataType::kInt64, "uint32", 4};
      if (size == 8) return Reading{DataType::kInt64, "uint64"};
      break;
    }
    case H5T_ENUM:  // As h5py writes booleans.
      if (size == 1) return Reading{DataType::kBool};
      break;
    case H5T_OPAQUE:  // As h5py writes what numpy itself has not.
      if (size == 2 && isBFloat16(set)) return Reading{DataType::kBFloat16};
      break;
    default:
      break;
  }
  return std::nullopt;
}

Result<DataSet> readSet(hid_t set, std::string name) {
  const Handle stored(H5Dget_type(set), &H5Tclose);
  const Handle space(H5Dget_space(set), &H5Sclose);
  if (!stored.valid() || !space.valid()) return damaged("its description is damaged");
  const auto reading = readingOf(set, stored);
  if (!reading) {
    return {StatusCode::kUnsupported, "its type is not one of numbers that Colla reads"};
  }
  DataSet result{.name = std::move(name),
                 .type = reading->type,
                 .foreignType = std::string(reading->foreignType),
                 .shape = {},
                 .bytes = {}};
  const int dimensions = H5Sget_simple_extent_ndims(space);
  if (dimensions < 0 || dimensions > H5S_MAX_RANK) return damaged("its shape is damaged");
  hsize_t sizes[H5S_MAX_RANK] = {};
  if (H5Sget_simple_extent_dims(space, sizes, nullptr) < 0) return damaged("its shape is damaged");
  for (int i = 0; i < dimensions; ++i) {
    if (!std::in_range<std::int64_t>(sizes[i])) return damaged("its shape is damaged");
    result.shape.push_back(static_cast<std::int64_t>(sizes[i]));
  }
  const auto elements = elementsOf(result.shape);
  if (!elements || H5Sget_simple_extent_type(space) == H5S_NULL)
    return damaged("it has no elements");
  const Handle wanted(H5Tcopy(stored), &H5Tclose);
  // An enumeration of one byte has no order, and neither have opaque bytes.
  if (H5Tget_order(wanted) == H5T_ORDER_BE && H5Tset_order(wanted, H5T_ORDER_LE) < 0) {
    return damaged("its type is damaged");
  }
  result.bytes.resize(*elements * H5Tget_size(wanted));
  if (!result.bytes.empty() &&
      H5Dread(set, wanted, H5S_ALL, H5S_ALL, H5P_DEFAULT, result.bytes.data()) < 0) {
    return damaged("its data is damaged, or the file is cut off");
  }
  if (reading->widenFrom == 2) result.bytes = widened<std::uint16_t, std::int32_t>(result.bytes);
  if (reading->widenFrom == 4) result.bytes = widened<std::uint32_t, std::int64_t>(result.bytes);
  return result;
}

// What the library's walk over a file carries along.
struct Walk {
  std::vector<DataSet> sets;
  Status status;
};

// A non-zero result ends the walk. Nothing may be thrown through the library.
herr_t visit(hid_t root, const char* name, const H5O_info_t* info, void* context) noexcept {
  Walk& walk = *static_cast<Walk*>(context);
  if (info->type != H5O_TYPE_DATASET) return 0;
  try {
    const Handle set(H5Dopen2(root, name, H5P_DEFAULT), &H5Dclose);
    auto result = set.valid() ? readSet(set, name) : damaged("it cannot be opened");
    if (result.ok()) {
      walk.sets.push_back(*std::move(result));
      return 0;
    }
    walk.status = result.status().withContext(fmt::format("data set {}", name));
  } catch (const std::exception&) {  // A shape that is larger than memory.
    walk.status = {StatusCode::kIo, fmt::format("data set {}: it is larger than memory", name)};
  }
  return 1;
}

Result<std::vector<DataSet>> readOpened(const std::string& path, hid_t access) {
  // Its own reports are pages long.
  (void)H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), &H5Fclose);
  if (!file.valid()) return damaged(path + " is no HDF5 file, is damaged or cut off");
  Walk walk;
  const herr_t ended = H5Ovisit(file, H5_INDEX_NAME, H5_ITER_INC, &visit, &walk);
  if (!walk.status.ok()) return walk.status.withContext(path);
  if (ended < 0) return damaged(path + " is damaged: its groups cannot be followed");
  return std::move(walk.sets);
}

}  // namespace

Result<std::vector<DataSet>> readHdf5(const std::string& path) {
  return readOpened(path, H5P_DEFAULT);
}

Result<std::vector<DataSet>> readHdf5(const std::string& path, std::span<std::byte> file) {
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), &H5Pclose);
  constexpr std::size_t kGrow = 64 << 10;
  const bool set = access.valid() && H5Pset_fapl_core(access, kGrow, /*backing_store=*/0) >= 0 &&
                   H5Pset_file_image(access, file.data(), file.size()) >= 0;
  if (!set) return damaged(path + " cannot be read from memory by HDF5");
  return readOpened(path, access);
}

}  // namespace colla::foreign
