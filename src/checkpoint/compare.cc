#include "checkpoint/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "base/check.h"
#include "checkpoint/numbers.h"

namespace colla::checkpoint {
namespace {

template <typename T>
double distance(T a, T b) {
  if constexpr (std::is_same_v<T, std::int64_t>) {
    // Doubles would round both before they are subtracted.
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    return static_cast<double>(a > b ? x - y : y - x);
  } else {
    return std::abs(valueOf(a) - valueOf(b));
  }
}

Shape indexAt(std::uint64_t position, const Shape& shape) {
  Shape index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    index[i] = static_cast<std::int64_t>(position % static_cast<std::uint64_t>(shape[i]));
    position /= static_cast<std::uint64_t>(shape[i]);
  }
  return index;
}

// The shortest text that is read as the same value; of NaNs, which have many, the bits.
template <typename T>
std::string elementText(T value, std::string_view foreignType) {
  if constexpr (kIsFloat<T>) {
    const double wide = valueOf(value);
    if (std::isnan(wide)) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, &value, sizeof(value));
      return fmt::format("nan ({:#x})", bits);
    }
    // Sixteen bits of precision and fewer are all in a float.
    if constexpr (sizeof(T) == sizeof(double)) return fmt::format("{}", wide);
    return fmt::format("{}", static_cast<float>(wide));
  } else {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      if (foreignType == "uint64") return fmt::format("{}", static_cast<std::uint64_t>(value));
    }
    return fmt::format("{}", value);
  }
}

template <typename T>
void compareElements(const ListedTensor& left, const ListedTensor& right, TensorComparison& result,
                     std::uint64_t& first, std::size_t values) {
  const TensorView& a = left.tensor;
  const TensorView& b = right.tensor;
  std::uint64_t largestUlp = 0;
  for (std::size_t i = 0; i < result.elements; ++i) {
    const std::size_t at = i * sizeof(T);
    if (std::memcmp(a.bytes.data() + at, b.bytes.data() + at, sizeof(T)) == 0) continue;
    const T x = loadElement<T>(a.bytes, i);
    const T y = loadElement<T>(b.bytes, i);
    if (result.differing++ == 0) first = i;
    if (result.values.size() < values) {
      result.values.push_back({indexAt(i, a.shape), elementText(x, left.foreignType),
                               elementText(y, left.foreignType)});
    }
    if constexpr (kIsFloat<T>) {
      if (std::isnan(valueOf(x)) || std::isnan(valueOf(y))) {
        result.nan = true;
        continue;
      }
      largestUlp = std::max(largestUlp, ulpsBetween(x, y));
    }
    result.largestAbsolute = std::max(result.largestAbsolute, distance(x, y));
  }
  if constexpr (kIsFloat<T>) result.largestUlp = largestUlp;
}

std::string both(std::string_view a, std::string_view b) {
  return a == b ? std::string(a) : fmt::format("{} / {}", a, b);
}

TensorComparison onlyIn(const ListedTensor& item, Outcome outcome) {
  TensorComparison result;
  result.name = item.tensor.name;
  result.part = item.part;
  result.type = item.typeText();
  result.shape = toString(item.tensor.shape);
  result.outcome = outcome;
  return result;
}

std::vector<std::string> notesOn(const Listing& a, const Listing& b) {
  std::vector<std::string> notes;
  const Loaded* left = a.checkpoint;
  const Loaded* right = b.checkpoint;
  if (left != nullptr && right != nullptr) {
    for (const Difference& difference : differences(left->manifest(), right->manifest())) {
      notes.push_back(fmt::format("{}: {} in A, {} in B; the same bits are not to be expected",
                                  difference.name, difference.a, difference.b));
    }
    if (left->manifest().step != right->manifest().step) {
      notes.push_back(
          fmt::format("step: {} in A, {} in B", left->manifest().step, right->manifest().step));
    }
  } else if (left != nullptr || right != nullptr) {
    notes.push_back(fmt::format("{} is a single file: optimizer state is not compared",
                                left == nullptr ? "A" : "B"));
  }
  return notes;
}

// Tensors of the model and of the optimizer may have the same name.
using Key = std::pair<bool, std::string_view>;

std::map<Key, const ListedTensor*> keyed(const Listing& listing, bool withOptimizer) {
  std::map<Key, const ListedTensor*> tensors;
  for (const ListedTensor& listed : listing.tensors) {
    const bool optimizer = listed.part == Part::kOptimizer;
    if (!optimizer || withOptimizer) tensors[{optimizer, listed.tensor.name}] = &listed;
  }
  return tensors;
}

}  // namespace

std::string_view toString(Outcome outcome) {
  switch (outcome) {
    case Outcome::kEqual:
      return "equal";
    case Outcome::kWithin:
      return "within";
    case Outcome::kDifferent:
      return "different";
    case Outcome::kOnlyInA:
      return "only in A";
    case Outcome::kOnlyInB:
      return "only in B";
    case Outcome::kOtherType:
      return "other type";
    case Outcome::kOtherShape:
      return "other shape";
  }
  return "unknown";
}

bool Comparison::equal() const { return std::ranges::all_of(tensors, &TensorComparison::equal); }

TensorComparison compareTensors(const ListedTensor& left, const ListedTensor& right,
                                std::optional<double> tolerance, std::size_t values) {
  const TensorView& a = left.tensor;
  const TensorView& b = right.tensor;
  TensorComparison result;
  result.name = a.name;
  result.type = both(left.typeText(), right.typeText());
  result.shape = both(toString(a.shape), toString(b.shape));
  const bool sameType = a.type == b.type && left.foreignType == right.foreignType;
  if (!sameType || a.shape != b.shape) {
    result.outcome = sameType ? Outcome::kOtherShape : Outcome::kOtherType;
    return result;
  }
  COLLA_CHECK(a.bytes.size() == b.bytes.size());
  result.elements = a.elements();
  if (a.bytes.empty() || std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0)
    return result;

  std::uint64_t first = 0;
  visitType(a.type, [&](auto type) {
    compareElements<decltype(type)>(left, right, result, first, values);
  });
  result.firstIndex = indexAt(first, a.shape);
  const bool within = tolerance && !result.nan && result.largestAbsolute <= *tolerance;
  result.outcome = within ? Outcome::kWithin : Outcome::kDifferent;
  return result;
}

Comparison compare(const Source& a, const Source& b, std::optional<double> tolerance) {
  return compare(listingOf(a), listingOf(b), tolerance);
}

Comparison compare(const Listing& a, const Listing& b, std::optional<double> tolerance,
                   std::size_t values) {
  Comparison comparison{a.path, b.path, tolerance, notesOn(a, b), {}};
  const bool withOptimizer = (a.checkpoint == nullptr) == (b.checkpoint == nullptr);
  const auto left = keyed(a, withOptimizer);
  const auto right = keyed(b, withOptimizer);
  for (const auto& [key, mine] : left) {
    const auto other = right.find(key);
    if (other == right.end()) {
      comparison.tensors.push_back(onlyIn(*mine, Outcome::kOnlyInA));
      continue;
    }
    auto result = compareTensors(*mine, *other->second, tolerance, values);
    result.part = std::min(mine->part, other->second->part);  // A single file does not know.
    comparison.tensors.push_back(std::move(result));
  }
  for (const auto& [key, theirs] : right) {
    if (!left.contains(key)) comparison.tensors.push_back(onlyIn(*theirs, Outcome::kOnlyInB));
  }
  std::ranges::sort(comparison.tensors, {},
                    [](const TensorComparison& t) { return std::tie(t.part, t.name); });
  return comparison;
}

}  // namespace colla::checkpoint
