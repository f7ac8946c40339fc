#include "ps/row_memory.h"

#include <algorithm>

namespace colla::ps {
namespace {

constexpr std::size_t kSmallest = std::size_t{1} << 20;
constexpr std::size_t kPieceAlignment = 64;

}  // namespace

std::span<std::byte> RowMemory::take(std::size_t bytes) {
  if (regions_.empty() || regions_.back().bytes.size() - used_ < bytes) {
    // Twice as large as before: soon one is enough for a step.
    const std::size_t last = regions_.empty() ? 0 : regions_.back().bytes.size();
    auto region = memory_.allocate(std::max({kSmallest, 2 * last, bytes}));
    if (!region.ok()) return {};
    regions_.push_back(*std::move(region));
    used_ = 0;
  }
  const std::span<std::byte> last = regions_.back().bytes;
  const std::size_t begin = used_;
  used_ = std::min((begin + bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment,
                   last.size());
  return last.subspan(begin, bytes);
}

// The largest is kept.
void RowMemory::takeBack() {
  while (regions_.size() > 1) regions_.erase(regions_.begin());
  used_ = 0;
}

}  // namespace colla::ps
