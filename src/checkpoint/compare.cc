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

template <typename T>
void compareElements(const TensorView& a, const TensorView& b, TensorComparison& result,
                     std::uint64_t& first) {
  std::uint64_t largestUlp = 0;
  for (std::size_t i = 0; i < result.elements; ++i) {
    const T x = loadElement<T>(a.bytes, i);
    const T y = loadElement<T>(b.bytes, i);
    if (std::memcmp(&x, &y, sizeof(T)) == 0) continue;
    if (result.differing++ == 0) first = i;
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

Shape indexAt(std::uint64_t position, const Shape& shape) {
  Shape index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    index[i] = static_cast<std::int64_t>(position % static_cast<std::uint64_t>(shape[i]));
    position /= static_cast<std::uint64_t>(shape[i]);
  }
  return index;
}

std::string both(std::string_view a, std::string_view b) {
  return a == b ? std::string(a) : fmt::format("{} / {}", a, b);
}

TensorComparison onlyIn(const Item& item, Outcome outcome) {
  TensorComparison result;
  result.name = item.tensor->name;
  result.part = item.part;
  result.type = toString(item.tensor->type);
  result.shape = toString(item.tensor->shape);
  result.outcome = outcome;
  return result;
}

std::vector<std::string> notesOn(const Source& a, const Source& b) {
  std::vector<std::string> notes;
  const Loaded* left = a.checkpoint();
  const Loaded* right = b.checkpoint();
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

std::map<Key, Item> keyed(const Source& source, bool withOptimizer) {
  std::map<Key, Item> items;
  for (const Item& item : source.items()) {
    const bool optimizer = item.part == Part::kOptimizer;
    if (!optimizer || withOptimizer) items[{optimizer, item.tensor->name}] = item;
  }
  return items;
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

TensorComparison compareTensors(const TensorView& a, const TensorView& b,
                                std::optional<double> tolerance) {
  TensorComparison result;
  result.name = a.name;
  result.type = both(toString(a.type), toString(b.type));
  result.shape = both(toString(a.shape), toString(b.shape));
  if (a.type != b.type || a.shape != b.shape) {
    result.outcome = a.type != b.type ? Outcome::kOtherType : Outcome::kOtherShape;
    return result;
  }
  COLLA_CHECK(a.bytes.size() == b.bytes.size());
  result.elements = a.elements();
  if (a.bytes.empty() || std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0)
    return result;

  std::uint64_t first = 0;
  visitType(a.type, [&](auto type) { compareElements<decltype(type)>(a, b, result, first); });
  result.firstIndex = indexAt(first, a.shape);
  const bool within = tolerance && !result.nan && result.largestAbsolute <= *tolerance;
  result.outcome = within ? Outcome::kWithin : Outcome::kDifferent;
  return result;
}

Comparison compare(const Source& a, const Source& b, std::optional<double> tolerance) {
  Comparison comparison{a.path(), b.path(), tolerance, notesOn(a, b), {}};
  const bool withOptimizer = (a.checkpoint() == nullptr) == (b.checkpoint() == nullptr);
  const auto left = keyed(a, withOptimizer);
  const auto right = keyed(b, withOptimizer);
  for (const auto& [key, item] : left) {
    const auto other = right.find(key);
    if (other == right.end()) {
      comparison.tensors.push_back(onlyIn(item, Outcome::kOnlyInA));
      continue;
    }
    auto result = compareTensors(*item.tensor, *other->second.tensor, tolerance);
    result.part = std::min(item.part, other->second.part);  // A single file does not know.
    comparison.tensors.push_back(std::move(result));
  }
  for (const auto& [key, item] : right) {
    if (!left.contains(key)) comparison.tensors.push_back(onlyIn(item, Outcome::kOnlyInB));
  }
  std::ranges::sort(comparison.tensors, {},
                    [](const TensorComparison& t) { return std::tie(t.part, t.name); });
  return comparison;
}

}  // namespace colla::checkpoint
