#include "checkpoint/restore.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "base/check.h"

namespace colla::checkpoint {
namespace {

const TensorView* find(std::span<const TensorView> saved, std::string_view name) {
  const auto found = std::ranges::lower_bound(saved, name, {}, &TensorView::name);
  return found != saved.end() && found->name == name ? &*found : nullptr;
}

template <typename Tensor>
std::string described(const Tensor& tensor) {
  return fmt::format("{} {}", toString(tensor.type), toString(tensor.shape));
}

}  // namespace

Status restore(std::span<const TensorView> saved, std::span<const Target> targets) {
  std::vector<std::string> problems;
  std::set<std::string_view> wanted;
  for (const Target& target : targets) {
    COLLA_CHECK(wanted.insert(target.name).second);
    const TensorView* tensor = find(saved, target.name);
    if (tensor == nullptr) {
      problems.push_back(fmt::format("the checkpoint has no \"{}\"", target.name));
    } else if (tensor->type != target.type || tensor->shape != target.shape) {
      problems.push_back(fmt::format("\"{}\" is {} in the checkpoint, but must be {}", target.name,
                                     described(*tensor), described(target)));
    } else {
      COLLA_CHECK(tensor->bytes.size() == target.bytes.size());
    }
  }
  for (const TensorView& tensor : saved) {
    if (!wanted.contains(tensor.name)) {
      problems.push_back(fmt::format("\"{}\" of the checkpoint has no place", tensor.name));
    }
  }
  if (!problems.empty()) {
    std::string message = problems.front();
    if (problems.size() > 1)
      message += fmt::format(" (and {} more that do not fit)", problems.size() - 1);
    return {StatusCode::kMismatch, std::move(message)};
  }
  for (const Target& target : targets) {
    if (target.bytes.empty()) continue;
    std::memcpy(target.bytes.data(), find(saved, target.name)->bytes.data(), target.bytes.size());
  }
  return {};
}

}  // namespace colla::checkpoint
