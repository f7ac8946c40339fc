#include "named/agreement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

namespace colla::named {
namespace {

bool reduces(Kind kind) { return kind == Kind::kAllreduce || kind == Kind::kReducescatter; }
bool hasTensor(Kind kind) { return kind < Kind::kBarrier; }
// Shapes may differ in the first dimension.
bool hasOwnRows(Kind kind) { return kind == Kind::kAllgather || kind == Kind::kAlltoall; }

std::string shapeText(const Announcement& what) {
  if (!hasOwnRows(what.kind) || what.shape.empty()) return toText(what.shape);
  const auto tail = std::span(what.shape).subspan(1);
  return fmt::format("[…{}{}]", tail.empty() ? "" : ", ", fmt::join(tail, ", "));
}

std::string groupText(const Announcement& what) {
  if (what.group.count == 0) return "alone";
  return fmt::format("in a group of {} from \"{}\" on", what.group.count, what.group.first);
}

// One thing that must be the same on all ranks: what it is called, and how it looks.
struct Aspect {
  const char* name;
  std::string (*text)(const Announcement&);
  bool (*concerns)(Kind);
};

// The first that differs is reported, so what explains the others comes first.
constexpr Aspect kAspects[] = {
    {"operations", [](const Announcement& a) { return std::string(toString(a.kind)); },
     [](Kind) { return true; }},
    {"data types", [](const Announcement& a) { return std::string(toString(a.type)); }, hasTensor},
    {"shapes", shapeText, hasTensor},
    {"reductions", [](const Announcement& a) { return std::string(toString(a.op)); }, reduces},
    {"scale factors (before, after)",
     [](const Announcement& a) { return fmt::format("({}, {})", a.prescale, a.postscale); },
     reduces},
    {"root ranks", [](const Announcement& a) { return fmt::format("{}", a.root); },
     [](Kind kind) { return kind == Kind::kBroadcast; }},
    {"ranks", [](const Announcement& a) { return toText(a.shape); },
     [](Kind kind) { return kind == Kind::kAddSet; }},
    {"process sets", [](const Announcement& a) { return fmt::format("{}", a.root); },
     [](Kind kind) { return kind == Kind::kRemoveSet; }},
    {"groups", groupText, hasTensor},
};

// As `text` tells them apart, by the first rank of each.
std::vector<std::pair<std::string, std::vector<int>>> sorted(std::span<const Brought> all,
                                                             const Aspect& aspect) {
  std::vector<std::pair<std::string, std::vector<int>>> kinds;
  for (const Brought& one : all) {
    std::string text = aspect.text(*one.what);
    auto it = std::ranges::find(kinds, text, &decltype(kinds)::value_type::first);
    if (it == kinds.end()) it = kinds.emplace(it, std::move(text), std::vector<int>());
    it->second.push_back(one.rank);
  }
  return kinds;
}

// The texts would say so too, but this is what is asked each time.
bool same(const Announcement& a, const Announcement& b) {
  return a.kind == b.kind && a.type == b.type &&
         (a.shape == b.shape || (hasOwnRows(a.kind) && shapeText(a) == shapeText(b))) &&
         a.op == b.op && a.prescale == b.prescale && a.postscale == b.postscale &&
         a.root == b.root && a.group == b.group;
}

Status mismatch(std::span<const Brought> all) {
  for (const Aspect& aspect : kAspects) {
    if (!aspect.concerns(all.front().what->kind)) continue;
    const auto kinds = sorted(all, aspect);
    if (kinds.size() == 1) continue;
    std::string list;
    for (const auto& [text, ranks] : kinds) {
      list += fmt::format("{}{} on {}", list.empty() ? "" : "; ", text, ranksText(ranks));
    }
    return {StatusCode::kMismatch, fmt::format("{}: ranks brought different {}: {}",
                                               describe(*all.front().what), aspect.name, list)};
  }
  return {};
}

}  // namespace

Status agreement(std::span<const Brought> all) {
  const Announcement& first = *all.front().what;
  if (!std::ranges::all_of(all, [&](const Brought& one) { return same(*one.what, first); })) {
    if (Status status = mismatch(all); !status.ok()) return status;
  }
  if ((hasOwnRows(first.kind) || first.kind == Kind::kReducescatter) && first.shape.empty()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{}: {} needs a tensor with at least one dimension, but this is a scalar",
                        describe(first), toString(first.kind))};
  }
  return {};
}

std::string describe(const Announcement& what) {
  if (what.key.set == kOwnSet) return std::string(toString(what.kind));
  if (what.key.set == kWorldSet) return fmt::format("\"{}\"", what.key.name);
  return fmt::format("\"{}\" (process set {})", what.key.name, what.key.set);
}

std::string ranksText(std::span<const int> ranks) {
  constexpr std::size_t kMost = 16;
  const auto shown = ranks.first(std::min(ranks.size(), kMost));
  return fmt::format("rank{} {}{}", ranks.size() == 1 ? "" : "s", fmt::join(shown, ", "),
                     ranks.size() > kMost ? fmt::format(" and {} more", ranks.size() - kMost) : "");
}

}  // namespace colla::named
