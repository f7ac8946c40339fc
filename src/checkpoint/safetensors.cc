#include "checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/invalid.h"

namespace colla::checkpoint {
namespace {

using nlohmann::json;

constexpr std::string_view kMetadataName = "__metadata__";
constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);

constexpr std::array<std::pair<DataType, std::string_view>, kDataTypes> kTypeNames = {{
    {DataType::kFloat32, "F32"},
    {DataType::kFloat64, "F64"},
    {DataType::kBFloat16, "BF16"},
    {DataType::kFloat16, "F16"},
    {DataType::kInt8, "I8"},
    {DataType::kInt16, "I16"},
    {DataType::kInt32, "I32"},
    {DataType::kInt64, "I64"},
    {DataType::kUInt8, "U8"},
    {DataType::kBool, "BOOL"},
}};

std::string_view nameOf(DataType type) {
  return std::ranges::find(kTypeNames, type, &std::pair<DataType, std::string_view>::first)->second;
}

std::optional<DataType> typeOf(std::string_view name) {
  const auto* found =
      std::ranges::find(kTypeNames, name, &std::pair<DataType, std::string_view>::second);
  if (found == kTypeNames.end()) return std::nullopt;
  return found->first;
}

// Takes the JSON piece by piece and refuses the first one that the format does not have there, so
// that no input makes it build anything but a list of tensors. The names of the functions are
// those that nlohmann's parser calls.
// NOLINTBEGIN(readability-identifier-naming)
class HeaderReader {
 public:
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  bool null() { return misplaced("null"); }
  bool boolean(bool) { return misplaced("a boolean"); }
  bool number_integer(number_integer_t) { return misplaced("a negative number"); }
  bool number_float(number_float_t, const string_t&) { return misplaced("a fraction"); }
  bool binary(binary_t&) { return misplaced("binary data"); }

  bool number_unsigned(number_unsigned_t value) {
    if (place_ == Place::kShape) {
      if (!std::in_range<std::int64_t>(value))
        return fail(fmt::format("{} has a dimension of {}", tensorText(), value));
      tensor_.shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (place_ == Place::kOffsets && offsets_ < 2) {
      (offsets_++ == 0 ? tensor_.begin : tensor_.end) = value;
      return true;
    }
    return misplaced("a number");
  }

  bool string(string_t& value) {
    if (place_ == Place::kMetadata) {
      header_.metadata[key_] = std::move(value);
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return misplaced("text");
    const auto type = typeOf(value);
    if (!type)
      return fail(
          fmt::format("{} has the type \"{}\", which Colla does not know", tensorText(), value));
    tensor_.type = *type;
    return true;
  }

  bool start_object(std::size_t) {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTop;
        return true;
      case Place::kTop:
        place_ = key_ == kMetadataName ? Place::kMetadata : Place::kTensor;
        tensor_ = TensorPlace{.name = key_, .shape = {}};
        fields_.clear();
        offsets_ = 0;
        return true;
      default:
        return misplaced("an object");
    }
  }

  bool key(string_t& value) {
    key_ = std::move(value);
    if (place_ == Place::kTop) {
      return names_.insert(key_).second || fail(fmt::format("\"{}\" occurs twice", key_));
    }
    if (place_ == Place::kMetadata) return true;
    if (key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") {
      return fail(fmt::format("{} has \"{}\", which the format does not", tensorText(), key_));
    }
    return fields_.insert(key_).second ||
           fail(fmt::format("{} has \"{}\" twice", tensorText(), key_));
  }

  bool end_object() {
    if (place_ == Place::kTensor) {
      if (fields_.size() != 3 || offsets_ != 2) {
        return fail(fmt::format("{} lacks dtype, shape or data_offsets", tensorText()));
      }
      header_.tensors.push_back(std::move(tensor_));
    }
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool start_array(std::size_t) {
    if (place_ != Place::kTensor || key_ == "dtype") return misplaced("a list");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }
  bool end_array() {
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception&) {
    return fail(fmt::format("byte {} of the header is not JSON", position));
  }

  Header& header() { return header_; }
  const std::string& error() const { return error_; }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  std::string tensorText() const { return fmt::format("tensor \"{}\"", tensor_.name); }
  bool misplaced(std::string_view what) {
    const bool inTensor =
        place_ == Place::kTensor || place_ == Place::kShape || place_ == Place::kOffsets;
    if (inTensor) return fail(fmt::format("{} has {} for its {}", tensorText(), what, key_));
    return fail(fmt::format("the header has {} where the format does not", what));
  }
  bool fail(std::string message) {
    error_ = std::move(message);
    return false;
  }

  Header header_;
  Place place_ = Place::kStart;
  std::string key_;
  std::set<std::string> names_;
  std::set<std::string> fields_;
  TensorPlace tensor_;
  int offsets_ = 0;
  std::string error_;
};
// NOLINTEND(readability-identifier-naming)

// The bytes that type and shape ask for; none if that is more than can be counted.
std::optional<std::uint64_t> bytesOf(const TensorPlace& tensor) {
  std::uint64_t bytes = sizeOf(tensor.type);
  // Zero first: a tensor without elements has no bytes, however large its other dimensions.
  if (std::ranges::find(tensor.shape, 0) != tensor.shape.end()) return 0;
  for (const std::int64_t dimension : tensor.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dimension), &bytes))
      return std::nullopt;
  }
  return bytes;
}

// Every byte of the data belongs to exactly one tensor.
Status checkPlaces(Header& header, std::uint64_t dataBytes) {
  std::ranges::sort(header.tensors, {},
                    [](const TensorPlace& t) { return std::tie(t.begin, t.end, t.name); });
  std::uint64_t reached = 0;
  for (const TensorPlace& tensor : header.tensors) {
    if (tensor.begin != reached || tensor.end < tensor.begin) {
      return invalid(
          "tensor \"{}\" is said to be at bytes {} to {} of the data, but must start at {}: "
          "tensors overlap or leave a gap",
          tensor.name, tensor.begin, tensor.end, reached);
    }
    if (tensor.end > dataBytes) {
      return invalid(
          "tensor \"{}\" is said to end at byte {} of the data, of which there are {}: "
          "the file is cut off or damaged",
          tensor.name, tensor.end, dataBytes);
    }
    const auto bytes = bytesOf(tensor);
    if (bytes != tensor.end - tensor.begin) {
      return invalid("tensor \"{}\" has {} bytes, which is not what {} of shape {} takes",
                     tensor.name, tensor.end - tensor.begin, toString(tensor.type),
                     toString(tensor.shape));
    }
    reached = tensor.end;
  }
  if (reached != dataBytes) {
    return invalid("{} bytes of data belong to no tensor", dataBytes - reached);
  }
  return {};
}

}  // namespace

Result<Header> parseHeader(std::span<const std::byte> start, std::uint64_t fileSize) {
  if (start.size() < kLengthBytes || fileSize < kLengthBytes) {
    return invalid("has {} bytes, which is too short for a safetensors file", fileSize);
  }
  const auto length = ByteReader(start).number<std::uint64_t>();
  if (length > kMaxHeader || length > fileSize - kLengthBytes ||
      length > start.size() - kLengthBytes) {
    return invalid(
        "is not a safetensors file, or damaged: its first 8 bytes ask for a header of {} "
        "bytes in a file of {}",
        length, fileSize);
  }
  const auto* text = reinterpret_cast<const char*>(start.data()) + kLengthBytes;
  HeaderReader reader;
  if (!json::sax_parse(text, text + length, &reader)) return invalid("{}", reader.error());

  Header header = std::move(reader.header());
  header.dataBegin = kLengthBytes + length;
  COLLA_TRY(checkPlaces(header, fileSize - header.dataBegin));
  return header;
}

Result<EncodedHeader> encodeHeader(std::span<const TensorView> tensors, const Metadata& metadata) {
  EncodedHeader encoded;
  encoded.order.resize(tensors.size());
  std::iota(encoded.order.begin(), encoded.order.end(), std::size_t{0});
  std::ranges::sort(encoded.order, [&](std::size_t a, std::size_t b) {
    const auto widthA = sizeOf(tensors[a].type);
    const auto widthB = sizeOf(tensors[b].type);
    return widthA != widthB ? widthA > widthB : tensors[a].name < tensors[b].name;
  });

  // By hand, because the order of the entries is part of what is promised.
  const auto quoted = [](std::string_view value) {
    return json(value).dump(-1, ' ', false, json::error_handler_t::replace);
  };
  std::string text = "{";
  const auto separate = [&text] { text += text.size() > 1 ? "," : ""; };
  if (!metadata.empty()) {
    text += fmt::format("\"{}\":{}", kMetadataName,
                        json(metadata).dump(-1, ' ', false, json::error_handler_t::replace));
  }
  std::uint64_t offset = 0;
  for (const std::size_t index : encoded.order) {
    const TensorView& tensor = tensors[index];
    const std::uint64_t end = offset + tensor.bytes.size();
    separate();
    text += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        quoted(tensor.name), nameOf(tensor.type), fmt::join(tensor.shape, ","),
                        offset, end);
    offset = end;
  }
  text += "}";
  const std::size_t unpadded = kLengthBytes + text.size();
  text.append((kDataAlignment - unpadded % kDataAlignment) % kDataAlignment, ' ');

  ByteWriter writer;
  writer.number(static_cast<std::uint64_t>(text.size()));
  writer.raw(std::as_bytes(std::span(text)));
  // What the reader refuses is not written: the file's owner would learn of it too late.
  COLLA_TRY_ASSIGN(const Header header,
                   parseHeader(writer.bytes(), writer.bytes().size() + offset));
  std::set<std::string_view> names;
  for (const TensorPlace& tensor : header.tensors) names.insert(tensor.name);
  for (const TensorView& tensor : tensors) {
    if (!names.contains(tensor.name))
      return invalid("the name of a tensor is not UTF-8, or is reserved");
  }
  encoded.bytes.assign(reinterpret_cast<const char*>(writer.bytes().data()), writer.bytes().size());
  return encoded;
}

}  // namespace colla::checkpoint
