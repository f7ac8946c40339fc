#include "collective/board.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "base/metric_families.h"
#include "collective/call.h"

namespace colla::collective {
namespace {

constexpr std::chrono::milliseconds kLookOutside{50};
// Longer than those who wait for messages take to find out who is late.
constexpr std::chrono::milliseconds kPatience{1500};

constexpr std::size_t roundUp(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

Board::Layout::Layout(std::size_t ranks)
    : small(roundUp(sizeof(Header), 64)),
      numbers(small + 2 * kSmall),
      numbersBytes(roundUp((ranks + 1) * sizeof(std::uint64_t), 64)),
      staging(roundUp(numbers + 4 * numbersBytes, 4096)),
      total(staging + kStagingBytes) {}

Board::Board(transport::SharedMemory& memory, std::shared_ptr<MemoryShelf> shelf,
             std::vector<int> members, int rank, std::vector<std::string> names)
    : memory_(memory),
      shelf_(std::move(shelf)),
      members_(std::move(members)),
      rank_(rank),
      names_(std::move(names)),
      layout_(members_.size()),
      boards_(members_.size()) {
  waits_.resize(members_.size());
  for (int other = 0; other < size(); ++other) {
    if (other == rank_) continue;
    others_.push_back(members_[other]);
    waits_[other].emplace(metrics::family("colla_wait_seconds_total"),
                          std::vector<std::string>{names_[other]});
  }
}

Board::~Board() {
  if (own_.keep != nullptr) shelf_->giveBack(std::move(own_));
}

Result<std::unique_ptr<Board>> Board::create(transport::SharedMemory& memory,
                                             std::shared_ptr<MemoryShelf> shelf,
                                             std::vector<int> members, int rank,
                                             std::vector<std::string> names) {
  std::unique_ptr<Board> board(
      new Board(memory, std::move(shelf), std::move(members), rank, std::move(names)));
  COLLA_TRY_ASSIGN(board->own_, board->shelf_->take(memory, board->layout_.total));
  // All but the staging area, which is written before it is read.
  std::ranges::fill(board->own_.bytes.first(board->layout_.staging), std::byte{0});
  board->boards_[rank] = board->own_.bytes;
  return board;
}

Status Board::open(std::span<const transport::Place> places, const transport::Call& call,
                   Deadline deadline) {
  for (int other = 0; other < size(); ++other) {
    if (other == rank_) continue;
    COLLA_TRY_ASSIGN(transport::Mapping mapping,
                     memory_.map(members_[other], places[other], layout_.total, deadline));
    boards_[other] = mapping.bytes;
    mappings_.push_back(std::move(mapping));
  }
  // Nobody leaves, and takes its board along, before everybody has it.
  call_ = call;
  advance();
  return awaitAll(deadline);
}

std::span<std::byte> Board::small(int rank, std::uint64_t sequence) {
  return boards_[rank].subspan(layout_.small + (sequence % 2) * kSmall, kSmall);
}

std::span<std::uint64_t> Board::sends(int rank, std::uint64_t sequence) {
  return numbers(rank, sequence % 2);
}

std::span<std::uint64_t> Board::expects(int rank, std::uint64_t sequence) {
  return numbers(rank, 2 + sequence % 2);
}

std::span<std::uint64_t> Board::numbers(int rank, std::size_t list) {
  std::byte* start = boards_[rank].data() + layout_.numbers + list * layout_.numbersBytes;
  return {reinterpret_cast<std::uint64_t*>(start), static_cast<std::size_t>(size()) + 1};
}

std::span<std::byte> Board::staging(int rank) {
  return boards_[rank].subspan(layout_.staging, kStagingBytes);
}

Board::Post& Board::draft(std::uint64_t sequence, const transport::Call& call) {
  Header& mine = header(rank_);
  mine.calls[sequence % 2] = call;
  call_ = call;
  return mine.posts[sequence % 2];
}

Status Board::arrive(std::uint64_t sequence, Deadline deadline) {
  header(rank_).arrived.store(sequence, std::memory_order_release);
  memory_.notify(others_);
  COLLA_TRY(awaitCounter(&Header::arrived, sequence, deadline));
  return compareCalls(sequence);
}

void Board::advance() {
  header(rank_).steps.store(++steps_, std::memory_order_release);
  memory_.notify(others_);
}

Status Board::awaitAll(Deadline deadline, std::uint64_t lag) {
  return awaitCounter(&Header::steps, steps_ - lag, deadline);
}

// As SharedMemory::wait(), with a look outside now and then.
template <typename Ready>
Status Board::wait(const Ready& ready, Deadline deadline, std::chrono::nanoseconds& waited) {
  if (!outside_) return memory_.wait(others_, ready, deadline, waited);
  while (true) {
    const Deadline next = deadline.earlier(Deadline::after(kLookOutside));
    Status status = memory_.wait(others_, ready, next, waited);
    if (status.code() != StatusCode::kTimeout || next.when() == deadline.when()) return status;
    Status news = outside_->news();
    // Of lateness each knows its own part only.
    if (!news.ok() && news.code() != StatusCode::kTimeout) return news;
  }
}

// Looks at the ranks in turn and never back: a counter only rises.
Status Board::awaitCounter(std::atomic<std::uint64_t> Header::*counter, std::uint64_t target,
                           Deadline deadline) {
  int next = 0;
  const auto everybody = [&, size = size()] {
    while (next < size && (header(next).*counter).load(std::memory_order_acquire) >= target) {
      ++next;
    }
    return next == size;
  };
  if (everybody()) return {};
  int missed = next;
  std::chrono::nanoseconds waited{};
  const auto over = [&] {
    if (everybody()) return true;
    missed = next;
    return anyBroken();
  };
  const Status status = wait(over, deadline, waited);
  if (waits_[missed]) waits_[missed]->add(waited);
  if (next == size()) return {};
  // Who broke the group may have left since: its reason counts, not that it is gone.
  if (anyBroken()) return whyBroken();
  if (status.code() != StatusCode::kTimeout) return brokenIn(call_, status);

  std::vector<std::string> missing;
  for (int rank = 0; rank < size(); ++rank) {
    if ((header(rank).*counter).load(std::memory_order_acquire) < target) {
      missing.push_back(names_[rank]);
    }
  }
  const Status late = didNotAnswer(missing, members_[next], waited, call_);
  if (!outside_) return late;
  outside_->tellLate(late);
  static_cast<void>(memory_.wait(
      others_, [&] { return anyBroken(); }, Deadline::after(kPatience), waited));
  return anyBroken() ? whyBroken() : late;
}

void Board::breakUp(const Status& why) {
  if (brokeUp_.test_and_set()) return;
  Header& mine = header(rank_);
  mine.brokenCode = why.code();
  mine.brokenPeer = why.peer();
  const std::size_t length = std::min(why.message().size(), mine.brokenText.size());
  std::copy_n(why.message().data(), length, mine.brokenText.data());
  mine.brokenLength = static_cast<std::uint32_t>(length);
  mine.broken.store(true, std::memory_order_release);
  memory_.notify(members_);  // This rank may wait as well, on another thread.
}

bool Board::anyBroken() {
  for (int rank = 0; rank < size(); ++rank) {
    if (header(rank).broken.load(std::memory_order_acquire)) return true;
  }
  return false;
}

// The first broken rank's reason.
Status Board::whyBroken() {
  int rank = 0;
  while (!header(rank).broken.load(std::memory_order_acquire)) ++rank;
  const Header& theirs = header(rank);
  const std::size_t length = std::min<std::size_t>(theirs.brokenLength, theirs.brokenText.size());
  return {theirs.brokenCode, std::string(theirs.brokenText.data(), length), theirs.brokenPeer};
}

Status Board::compareCalls(std::uint64_t sequence) {
  const auto callOf = [&](int rank) { return header(rank).calls[sequence % 2]; };
  int culprit = 0;
  while (culprit < size() && callOf(culprit) == call_) ++culprit;
  if (culprit == size()) return {};

  std::string text = "the ranks called different things:";
  for (int rank = 0; rank < size(); ++rank) {
    text +=
        fmt::format("{} {} called {}", rank == 0 ? "" : ";", names_[rank], describe(callOf(rank)));
  }
  return {StatusCode::kMismatch, text, members_[culprit]};
}

Result<transport::Mapping> Board::map(int rank, transport::Place place, std::size_t bytes,
                                      Deadline deadline) {
  if (rank == rank_) return {StatusCode::kInternal, "a rank maps its own buffers by address"};
  return memory_.map(members_[rank], place, bytes, deadline);
}

}  // namespace colla::collective
