// Two checkpoints, tensor by tensor: which have the same bits, and how far apart the others are.
//
// Pure: reads the tensors once and returns what it found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/listing.h"
#include "checkpoint/source.h"

namespace colla::checkpoint {

enum class Outcome {
  kEqual,   // Every bit; NaNs as well.
  kWithin,  // Not every bit, but no further apart than the tolerance.
  kDifferent,
  kOnlyInA,
  kOnlyInB,
  kOtherType,
  kOtherShape,
};
std::string_view toString(Outcome outcome);

// An element that differs, as people write numbers: enough digits that other bits have another
// text.
struct ElementDifference {
  Shape index;
  std::string a;
  std::string b;
};

struct TensorComparison {
  std::string name;
  Part part = Part::kTensor;
  std::string type;   // "float32", or "float32 / float64" if they differ.
  std::string shape;  // Likewise.
  Outcome outcome = Outcome::kEqual;
  // If the elements could be compared and some have other bits:
  std::uint64_t elements = 0;
  std::uint64_t differing = 0;
  double largestAbsolute = 0;               // Of those where neither side is a NaN.
  std::optional<std::uint64_t> largestUlp;  // Floating-point types only.
  bool nan = false;  // Some differ in that a NaN is on one side, or another one.
  Shape firstIndex;  // Of the first that differs.
  std::vector<ElementDifference> values{};  // The first ones, as many as were wanted.

  bool equal() const { return outcome == Outcome::kEqual || outcome == Outcome::kWithin; }
};

struct Comparison {
  std::string a;
  std::string b;
  std::optional<double> tolerance;
  // Settings that differ, and other reasons not to expect the same bits; for people.
  std::vector<std::string> notes;
  std::vector<TensorComparison> tensors;

  bool equal() const;
};

// With a tolerance, elements whose absolute difference is up to it count as equal; a NaN is equal
// to nothing but its own bits. Of each tensor, the first `values` elements that differ are kept.
Comparison compare(const Listing& a, const Listing& b, std::optional<double> tolerance = {},
                   std::size_t values = 0);
Comparison compare(const Source& a, const Source& b, std::optional<double> tolerance = {});

// Element by element, for two tensors of one type and shape.
TensorComparison compareTensors(const ListedTensor& a, const ListedTensor& b,
                                std::optional<double> tolerance = {}, std::size_t values = 0);

}  // namespace colla::checkpoint
