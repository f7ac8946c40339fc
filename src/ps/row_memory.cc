#include "ps/row_memory.h"

#include <algorithm>

namespace colla::ps {
namespace {

constexpr std::size_t kSmallest = std::size_t{1} << 20;
constexpr std::size_t kAlignment = 64;

}  // namespace

RowMemory::~RowMemory() {
  for (const std::span<std::byte> region : regions_) memory_.release(region);
}

std::span<std::byte> RowMemory::take(std::size_t bytes) {
  if (regions_.empty() || regions_.back().size() - used_ < bytes) {
    // Twice as large as before: soon one is enough for a step.
    const std::size_t last = regions_.empty() ? 0 : regions_.back().size();
    auto region = memory_.allocate(std::max({kSmallest, 2 * last, bytes}));
    if (!region.ok()) return {};
    regions_.push_back(*region);
    used_ = 0;
  }
  const std::span<std::byte> piece = regions_.back().subspan(used_, bytes);
  used_ =
      std::min((used_ + bytes + kAlignment - 1) / kAlignment * kAlignment, regions_.back().size());
  return piece;
}

// The largest is kept.
void RowMemory::takeBack() {
  while (regions_.size() > 1) {
    memory_.release(regions_.front());
    regions_.erase(regions_.begin());
  }
  used_ = 0;
}

}  // namespace colla::ps
