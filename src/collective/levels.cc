#include "collective/levels.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace colla::collective {
namespace {

constexpr std::size_t kLeastBytes = 64 << 10;

// `ranks` of `whole`, of which this rank is number `rank`.
Crew part(const Crew& whole, std::span<const int> ranks, int rank,
          transport::Transport* transport) {
  Crew crew{.rank = rank, .members = {}, .names = {}, .transport = transport};
  for (const int each : ranks) {
    crew.members.push_back(whole.members[each]);
    crew.names.push_back(whole.names[each]);
  }
  return crew;
}

}  // namespace

Levels::Levels(const Crew& whole, Topology topology, transport::Transport* host)
    : topology_(std::move(topology)),
      host_(topology_.hostOf(whole.rank)),
      inside_(part(whole, ranksHere(), topology_.localRank(whole.rank), host)) {
  const auto ranksOn = [&](int other) { return static_cast<int>(topology_.ranksOn(other).size()); };
  rails_ = lanes_ = inside_.size();
  for (int other = 0; other < topology_.hosts(); ++other) {
    rails_ = std::min(rails_, ranksOn(other));
    lanes_ = std::max(lanes_, ranksOn(other));
  }
  for (int lane = inside_.rank; lane < lanes_; lane += inside_.size()) {
    std::vector<int> ranks;
    for (int other = 0; other < topology_.hosts(); ++other) {
      ranks.push_back(topology_.ranksOn(other)[localRankIn(lane, other)]);
    }
    across_.push_back(part(whole, ranks, host_, whole.transport));
  }
}

void Levels::setBoard(std::unique_ptr<Board> board) {
  board_ = std::move(board);
  inside_.board = board_.get();
}

Result<std::span<std::byte>> Levels::copies(std::size_t bytes) {
  if (copies_.bytes.size() < bytes) {
    copies_ = {};
    COLLA_TRY_ASSIGN(copies_,
                     board_->memory().allocate(std::bit_ceil(std::max(bytes, kLeastBytes))));
  }
  return copies_.bytes;
}

std::byte* Levels::sums(std::size_t bytes) {
  if (sumsBytes_ < bytes) {
    sums_.reset();
    sumsBytes_ = std::bit_ceil(std::max(bytes, kLeastBytes));
    sums_ = std::make_unique_for_overwrite<std::byte[]>(sumsBytes_);
  }
  return sums_.get();
}

}  // namespace colla::collective
