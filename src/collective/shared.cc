// An allreduce takes one of three ways, the same on every rank because all see all posts:
//
// - small: the partial sums travel in the posts themselves; every rank folds all of them. One
//   meeting.
// - in place: all buffers are in shared memory. The elements are cut into one chunk per rank;
//   each rank folds its chunk straight from the buffers of all and writes the result into all of
//   them. Two meetings, no copies.
// - staged: somebody's buffer is private. The elements go through the staging areas block by
//   block; a block has one chunk per rank (its owner). A rank stages what the others own, folds
//   what it owns, and collects what the others have folded. Staging block k+1 comes before
//   collecting block k, so that nobody waits at every step.
//
// Several small ones can share the posts of one meeting, beside one that goes in place or is
// staged: a training step has gradients, numbers and counters to sum, and one meeting for all of
// them.
//
// Every element is folded by one rank alone, over the same tree: the cut into chunks and blocks
// has no influence on the bits.
#include "collective/shared.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "collective/fold.h"
#include "collective/kernels.h"
#include "collective/posted.h"

namespace colla::collective {
namespace {

using transport::Place;

void foldPosted(const PostedReductions& posted, Board& board, std::uint64_t sequence) {
  posted.forEach(
      board, sequence, [](int rank) { return rank; },
      [](const Reduction& reduction, std::span<const std::byte* const> leaves) {
        const Buffer result = reduction.result;
        std::byte* const out = result.data();
        Folder(reduction.tree, result.type(), reduction.op)(leaves, std::span(&out, 1),
                                                            result.count());
      });
}

// One allreduce on this rank.
class SharedAllreduce {
 public:
  explicit SharedAllreduce(const Reduction& reduction)
      : turn_(reduction.turn),
        board_(*reduction.turn.board()),
        tree_(reduction.tree),
        partials_(reduction.partials),
        result_(reduction.result),
        fold_(reduction.tree, reduction.result.type(), reduction.op),
        rank_(reduction.turn.rank()),
        ranks_(reduction.turn.size()),
        elementSize_(sizeOf(reduction.result.type())),
        bytes_(reduction.result.bytes().size()),
        mostLeaves_(static_cast<std::size_t>(reduction.tree.mostLeaves())),
        leaves_(reduction.tree.leaves()) {}

  // `posted` travel in the same meeting.
  Status run(const PostedReductions& posted) {
    Board::Post& post = board_.draft(turn_.sequence, turn_.call);
    const bool postable = partials_.size() <= Board::kMostInputs;
    post.result = board_.memory().find(result_.bytes());
    for (std::size_t i = 0; postable && i < partials_.size(); ++i) {
      post.inputs[i] = board_.memory().find(partials_[i].bytes());
    }
    if (!postable) post.result = {};
    posted.put(board_.small(rank_, turn_.sequence));
    COLLA_TRY(board_.arrive(turn_.sequence, turn_.deadline));
    foldPosted(posted, board_, turn_.sequence);
    return everythingIsShared() ? inPlace() : staged();
  }

 private:
  std::size_t leavesOf(int rank) const { return static_cast<std::size_t>(tree_.leavesOf(rank)); }

  bool everythingIsShared() {
    for (int rank = 0; rank < ranks_; ++rank) {
      const Board::Post& post = board_.posted(rank, turn_.sequence);
      if (post.result.region == Place::kNowhere) return false;
      for (std::size_t i = 0; i < leavesOf(rank); ++i) {
        if (post.inputs[i].region == Place::kNowhere) return false;
      }
    }
    return true;
  }

  Status inPlace() {
    const Range mine = chunkOf(bytes_, ranks_, rank_);
    std::vector<std::byte*> outs(ranks_);
    for (int rank = 0; rank < ranks_; ++rank) {
      const Board::Post& post = board_.posted(rank, turn_.sequence);
      const auto at = [&](Place place, const void* own) -> Result<std::byte*> {
        if (rank == rank_) return static_cast<std::byte*>(const_cast<void*>(own)) + mine.begin;
        COLLA_TRY_ASSIGN(auto mapping, board_.map(rank, place, bytes_, turn_.deadline));
        return mappings_.emplace_back(std::move(mapping)).bytes.data() + mine.begin;
      };
      COLLA_TRY_ASSIGN(outs[rank], at(post.result, result_.data()));
      for (std::size_t i = 0; i < leavesOf(rank); ++i) {
        const void* own = rank == rank_ ? partials_[i].data() : nullptr;
        COLLA_TRY_ASSIGN(leaves_[tree_.firstLeaf(rank) + i], at(post.inputs[i], own));
      }
    }
    // Its own copy first: the others' are written from it.
    std::swap(outs[0], outs[rank_]);
    fold_(leaves_, outs, mine.size() / elementSize_);
    board_.advance();
    return board_.awaitAll(turn_.deadline);
  }

  // A half of a rank's staging area: `ranks_` chunks for each of its leaves, then the chunk that
  // it has folded.
  std::byte* stagedLeaf(int rank, std::size_t block, std::size_t leaf, int owner) {
    return half(rank, block) + (leaf * ranks_ + owner) * chunkBytes_;
  }
  std::byte* stagedResult(int rank, std::size_t block) {
    return half(rank, block) + mostLeaves_ * ranks_ * chunkBytes_;
  }
  std::byte* half(int rank, std::size_t block) {
    const auto area = board_.staging(rank);
    return area.data() + (block % 2) * (area.size() / 2);
  }
  Range blockChunk(std::size_t block, int owner) const {
    const std::size_t begin = (block * ranks_ + owner) * chunkBytes_;
    return {std::min(bytes_, begin), std::min(bytes_, begin + chunkBytes_)};
  }

  Status staged() {
    chunkBytes_ = stagedChunkBytes(mostLeaves_, static_cast<std::size_t>(ranks_));
    if (chunkBytes_ == 0) {
      return {StatusCode::kUnsupported, "too many partial sums for the staging area"};
    }
    const std::size_t blockBytes = chunkBytes_ * ranks_;
    const std::size_t blocks = (bytes_ + blockBytes - 1) / blockBytes;

    stage(0);
    for (std::size_t block = 0; block < blocks; ++block) {
      COLLA_TRY(board_.awaitAll(turn_.deadline));
      foldStaged(block);
      const bool last = block + 1 == blocks;
      if (!last) stage(block + 1);
      COLLA_TRY(board_.awaitAll(turn_.deadline, /*lag=*/last ? 0 : 1));
      collect(block);
    }
    return {};
  }

  void stage(std::size_t block) {
    for (int owner = 0; owner < ranks_; ++owner) {
      if (owner == rank_) continue;
      const Range range = blockChunk(block, owner);
      for (std::size_t i = 0; i < partials_.size(); ++i) {
        stageBytes(stagedLeaf(rank_, block, i, owner), partials_[i].data() + range.begin,
                   range.size());
      }
    }
    finishStaging();
    board_.advance();
  }

  void foldStaged(std::size_t block) {
    const Range range = blockChunk(block, rank_);
    for (int rank = 0; rank < ranks_; ++rank) {
      for (std::size_t i = 0; i < leavesOf(rank); ++i) {
        leaves_[tree_.firstLeaf(rank) + i] =
            rank == rank_ ? partials_[i].data() + range.begin : stagedLeaf(rank, block, i, rank_);
      }
    }
    fold_.stage(leaves_, result_.data() + range.begin, stagedResult(rank_, block),
                range.size() / elementSize_);
    finishStaging();
    board_.advance();
  }

  void collect(std::size_t block) {
    for (int owner = 0; owner < ranks_; ++owner) {
      if (owner == rank_) continue;
      const Range range = blockChunk(block, owner);
      copyBytes(result_.data() + range.begin, stagedResult(owner, block), range.size());
    }
  }

  GroupCore::Turn& turn_;
  Board& board_;
  const SumTree& tree_;
  const std::span<const ConstBuffer> partials_;
  const Buffer result_;
  const Folder fold_;
  const int rank_, ranks_;
  const std::size_t elementSize_, bytes_;
  const std::size_t mostLeaves_;
  std::size_t chunkBytes_ = 0;
  std::vector<const std::byte*> leaves_;
  std::vector<transport::Mapping> mappings_;
};

}  // namespace

bool fitsPosts(const SumTree& tree, std::span<const std::size_t> bytes) {
  const auto most = static_cast<std::size_t>(tree.mostLeaves());
  std::size_t room = 0;
  for (const std::size_t each : bytes) room += roomFor(most, each);
  return room <= Board::kSmall;
}

Status allreduceShared(const Reduction& reduction) {
  const std::size_t bytes = reduction.result.bytes().size();
  if (fitsPosts(reduction.tree, std::span(&bytes, 1))) {
    return allreduceShared(std::span(&reduction, 1), nullptr);
  }
  return allreduceShared({}, &reduction);
}

Status allreduceShared(std::span<const Reduction> small, const Reduction* large) {
  const PostedReductions posted(small);
  if (large != nullptr) return SharedAllreduce(*large).run(posted);
  GroupCore::Turn& turn = small.front().turn;
  Board& board = *turn.board();
  board.draft(turn.sequence, turn.call);
  posted.put(board.small(turn.rank(), turn.sequence));
  COLLA_TRY(board.arrive(turn.sequence, turn.deadline));
  foldPosted(posted, board, turn.sequence);
  return {};
}

Status readSources(GroupCore::Turn& turn, std::span<const std::byte> source, std::size_t largest,
                   const std::function<std::size_t(int rank)>& lengthOf, const Consume& consume,
                   const std::function<Status()>& agree) {
  Board& board = *turn.board();
  const int rank = turn.rank();
  const int ranks = turn.size();
  std::vector<const std::byte*> at(ranks);
  at[rank] = source.data();

  Board::Post& post = board.draft(turn.sequence, turn.call);
  if (largest <= Board::kSmall) {
    if (!source.empty()) {
      copyBytes(board.small(rank, turn.sequence).data(), source.data(), source.size());
    }
    COLLA_TRY(board.arrive(turn.sequence, turn.deadline));
    if (agree != nullptr) COLLA_TRY(agree());
    for (int each = 0; each < ranks; ++each) {
      if (each != rank) at[each] = board.small(each, turn.sequence).data();
    }
    consume(0, largest, at);
    return {};
  }

  post.result = {};
  post.inputs[0] = board.memory().find(source);
  COLLA_TRY(board.arrive(turn.sequence, turn.deadline));
  if (agree != nullptr) COLLA_TRY(agree());
  std::size_t longest = 0;
  bool shared = true;
  for (int each = 0; each < ranks; ++each) {
    const std::size_t length = lengthOf(each);
    longest = std::max(longest, length);
    const Place place = board.posted(each, turn.sequence).inputs[0];
    if (length > 0 && place.region == Place::kNowhere) shared = false;
  }

  if (shared) {
    std::vector<transport::Mapping> mappings;
    for (int each = 0; each < ranks; ++each) {
      if (each == rank || lengthOf(each) == 0) continue;
      const Place place = board.posted(each, turn.sequence).inputs[0];
      COLLA_TRY_ASSIGN(auto mapping, board.map(each, place, lengthOf(each), turn.deadline));
      at[each] = mappings.emplace_back(std::move(mapping)).bytes.data();
    }
    consume(0, longest, at);
    // Nobody's source may change before everybody has read it.
    board.advance();
    return board.awaitAll(turn.deadline);
  }

  const std::size_t window = board.staging(rank).size() / 2;
  for (std::size_t begin = 0; begin < longest; begin += window) {
    const std::size_t half = begin / window % 2 * window;
    const std::size_t end = std::min(longest, begin + window);
    if (begin < source.size()) {
      stageBytes(board.staging(rank).data() + half, source.data() + begin,
                 std::min(source.size(), end) - begin);
      finishStaging();
    }
    board.advance();
    COLLA_TRY(board.awaitAll(turn.deadline));
    for (int each = 0; each < ranks; ++each) {
      const std::byte* const own = begin < source.size() ? source.data() + begin : nullptr;
      at[each] = each == rank ? own : board.staging(each).data() + half;
    }
    consume(begin, end, at);
  }
  return {};
}

Status comparePosted(GroupCore::Turn& turn) {
  Board& board = *turn.board();
  for (int from = 0; from < turn.size(); ++from) {
    const auto sends = board.sends(from, turn.sequence);
    for (int to = 0; to < turn.size(); ++to) {
      const auto expects = board.expects(to, turn.sequence);
      const std::size_t sent = sends[to + 1] - sends[to];
      const std::size_t expected = expects[from + 1] - expects[from];
      if (sent == expected) continue;
      return {StatusCode::kMismatch,
              fmt::format("{}: {} sends {} bytes to {}, which expects {}", describe(turn.call),
                          turn.crew.names[from], sent, turn.crew.names[to], expected),
              turn.crew.members[from]};
    }
  }
  return {};
}

}  // namespace colla::collective
