// The messages, as far as we read them:
//
//   Example   { Features features = 1; }
//   Features  { map<string, Feature> feature = 1; }     an entry has key = 1, value = 2
//   Feature   { BytesList = 1; FloatList = 2; Int64List = 3; }     each list has value = 1
//
// Numbers come packed, or one by one as older writers have it.
#include "data/record/example.h"

#include <fmt/format.h>

#include <protozero/exception.hpp>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

namespace colla::data {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr protozero::pbf_tag_type kFirst = 1;  // The only field of most messages.
constexpr protozero::pbf_tag_type kEntryValue = 2;
enum FeatureField : protozero::pbf_tag_type { kBytes = 1, kFloats = 2, kIntegers = 3 };

std::string_view viewOf(protozero::data_view view) { return {view.data(), view.size()}; }

void readBytes(pbf_reader list, Feature& feature) {
  while (list.next(kFirst, pbf_wire_type::length_delimited)) {
    feature.bytes.push_back(viewOf(list.get_view()));
  }
}

void readFloats(pbf_reader list, Feature& feature) {
  while (list.next(kFirst)) {
    if (list.wire_type() == pbf_wire_type::fixed32) {
      feature.floats.push_back(list.get_float());
    } else if (list.wire_type() == pbf_wire_type::length_delimited) {
      for (const float value : list.get_packed_float()) feature.floats.push_back(value);
    } else {
      list.skip();
    }
  }
}

void readIntegers(pbf_reader list, Feature& feature) {
  while (list.next(kFirst)) {
    if (list.wire_type() == pbf_wire_type::varint) {
      feature.integers.push_back(list.get_int64());
    } else if (list.wire_type() == pbf_wire_type::length_delimited) {
      for (const std::int64_t value : list.get_packed_int64()) feature.integers.push_back(value);
    } else {
      list.skip();
    }
  }
}

// As protobuf has it, a list of one kind ends one of another kind, and is added to one of its own.
void begin(FeatureKind kind, Feature& feature) {
  if (feature.kind() != kind) feature = {.kindIfEmpty = kind};
}

Feature readFeature(pbf_reader message) {
  Feature feature;
  while (message.next()) {
    if (message.wire_type() != pbf_wire_type::length_delimited) {
      message.skip();
      continue;
    }
    switch (message.tag()) {
      case kBytes:
        begin(FeatureKind::kBytes, feature);
        readBytes(message.get_message(), feature);
        break;
      case kFloats:
        begin(FeatureKind::kFloats, feature);
        readFloats(message.get_message(), feature);
        break;
      case kIntegers:
        begin(FeatureKind::kIntegers, feature);
        readIntegers(message.get_message(), feature);
        break;
      default:
        message.skip();
    }
  }
  return feature;
}

void appendList(const Feature& feature, protozero::pbf_writer& value) {
  if (feature.kind() == FeatureKind::kNone) return;
  const auto tag = static_cast<protozero::pbf_tag_type>(feature.kind());  // The same numbers.
  if (feature.bytes.empty() && feature.floats.empty() && feature.integers.empty()) {
    value.add_message(tag, "", 0);  // A nested writer would leave it out.
    return;
  }
  protozero::pbf_writer list(value, tag);
  for (const std::string_view one : feature.bytes) list.add_bytes(kFirst, one.data(), one.size());
  list.add_packed_float(kFirst, feature.floats.begin(), feature.floats.end());
  list.add_packed_int64(kFirst, feature.integers.begin(), feature.integers.end());
}

}  // namespace

Result<Example> Example::parse(std::span<const std::byte> record) {
  Example result;
  try {  // protozero throws what it finds wrong.
    pbf_reader example(reinterpret_cast<const char*>(record.data()), record.size());
    while (example.next(kFirst, pbf_wire_type::length_delimited)) {
      pbf_reader features = example.get_message();
      while (features.next(kFirst, pbf_wire_type::length_delimited)) {
        pbf_reader entry = features.get_message();
        std::string_view name;
        Feature feature;
        while (entry.next()) {
          const bool whole = entry.wire_type() == pbf_wire_type::length_delimited;
          if (whole && entry.tag() == kFirst) {
            name = viewOf(entry.get_view());
          } else if (whole && entry.tag() == kEntryValue) {
            feature = readFeature(entry.get_message());
          } else {
            entry.skip();
          }
        }
        result.features_[name] = std::move(feature);
      }
    }
  } catch (const protozero::exception& error) {
    return {StatusCode::kIo, fmt::format("is no tf.Example ({})", error.what())};
  }
  return result;
}

const Feature* Example::find(std::string_view name) const {
  const auto found = features_.find(name);
  return found == features_.end() ? nullptr : &found->second;
}

std::string_view Example::text(std::string_view name) const {
  const Feature* const feature = find(name);
  return feature == nullptr || feature->bytes.empty() ? std::string_view() : feature->bytes.front();
}

std::string exampleOf(const std::map<std::string, Feature>& features) {
  std::string bytes;
  protozero::pbf_writer example(bytes);
  protozero::pbf_writer map(example, kFirst);
  for (const auto& [name, feature] : features) {
    protozero::pbf_writer entry(map, kFirst);
    entry.add_string(kFirst, name);
    protozero::pbf_writer value(entry, kEntryValue);
    appendList(feature, value);
  }
  return bytes;
}

}  // namespace colla::data
