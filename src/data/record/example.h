// tf.Example: named lists of bytes or numbers, what TFRecord files usually hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colla/status.h"

namespace colla::data {

// The lists that a feature can have, with the numbers of their fields; kNone: it has none at all.
enum class FeatureKind : std::uint8_t { kNone = 0, kBytes = 1, kFloats = 2, kIntegers = 3 };

// One of the lists may have elements, the other two have none.
struct Feature {
  std::vector<std::string_view> bytes{};
  std::vector<float> floats{};
  std::vector<std::int64_t> integers{};
  // Which list it is if that is empty; ignored if one has elements.
  FeatureKind kindIfEmpty = FeatureKind::kNone;

  FeatureKind kind() const {
    if (!bytes.empty()) return FeatureKind::kBytes;
    if (!floats.empty()) return FeatureKind::kFloats;
    return integers.empty() ? kindIfEmpty : FeatureKind::kIntegers;
  }
};

// Its texts lie in the record, which must outlive it.
class Example {
 public:
  // kIo, without a name in front, for bytes that are no such message. What is not known of it is
  // skipped, as protobuf does.
  static Result<Example> parse(std::span<const std::byte> record);

  // By name.
  const std::map<std::string_view, Feature>& features() const { return features_; }
  // Null where there is none.
  const Feature* find(std::string_view name) const;
  // The first of its bytes; empty where there are none.
  std::string_view text(std::string_view name) const;

 private:
  std::map<std::string_view, Feature> features_;
};

// The bytes of an Example that has these features.
std::string exampleOf(const std::map<std::string, Feature>& features);

}  // namespace colla::data
