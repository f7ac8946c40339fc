#include "collective/board.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "base/check.h"
#include "collective/call.h"

namespace colla::collective {
namespace {

// Fits into the second-level cache beside the user's data; enough for two halves.
constexpr std::size_t kStagingBytes = 2 << 20;

constexpr std::size_t roundUp(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

struct Layout {
  std::size_t small, numbers, numbersBytes, staging, total;
};

Layout layoutFor(std::size_t headerBytes, std::size_t ranks) {
  Layout layout{};
  layout.small = roundUp(headerBytes, 64);
  layout.numbers = layout.small + 2 * Board::kSmall;
  layout.numbersBytes = roundUp((ranks + 1) * sizeof(std::uint64_t), 64);
  layout.staging = roundUp(layout.numbers + 2 * layout.numbersBytes, 4096);
  layout.total = layout.staging + kStagingBytes;
  return layout;
}

}  // namespace

Board::Board(transport::SharedMemory& memory, std::vector<int> members, int rank,
             std::vector<std::string> names)
    : memory_(memory), members_(std::move(members)), rank_(rank), names_(std::move(names)) {
  for (int other = 0; other < size(); ++other) {
    if (other != rank_) others_.push_back(members_[other]);
  }
}

Board::~Board() {
  if (!boards_.empty() && !boards_[rank_].empty()) memory_.release(boards_[rank_]);
}

Result<std::unique_ptr<Board>> Board::create(transport::Transport& transport, std::uint32_t group,
                                             std::vector<int> members, int rank,
                                             std::vector<std::string> names, Deadline deadline) {
  transport::SharedMemory& memory = *transport.sharedMemory();
  std::unique_ptr<Board> board(new Board(memory, std::move(members), rank, std::move(names)));
  const int size = board->size();
  const std::size_t bytes = layoutFor(sizeof(Header), size).total;
  board->boards_.resize(size);
  COLLA_TRY_ASSIGN(board->boards_[rank], memory.allocate(bytes));

  // Everybody tells everybody where its board is.
  std::vector<transport::Place> places(size);
  places[rank] = memory.find(board->boards_[rank]);
  std::deque<transport::Request> requests;
  std::vector<transport::Request*> pending;
  const transport::Envelope envelope{.group = group,
                                     .call = encode({.operation = Operation::kSubgroup,
                                                     .count = static_cast<std::uint64_t>(size)})};
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    transport::Request& in = requests.emplace_back();
    transport.recv(board->members_[other], envelope,
                   std::as_writable_bytes(std::span(&places[other], 1)), in);
    transport::Request& out = requests.emplace_back();
    transport.send(board->members_[other], envelope, std::as_bytes(std::span(&places[rank], 1)),
                   out);
    pending.insert(pending.end(), {&in, &out});
  }
  COLLA_TRY(transport.wait(pending, deadline));
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    COLLA_TRY_ASSIGN(transport::Mapping mapping,
                     memory.map(board->members_[other], places[other], bytes, deadline));
    board->boards_[other] = mapping.bytes;
    board->mappings_.push_back(std::move(mapping));
  }
  // Nobody leaves, and takes its board along, before everybody has it.
  board->call_ = envelope.call;
  board->advance();
  COLLA_TRY(board->awaitAll(deadline));
  return board;
}

std::span<std::byte> Board::small(int rank, std::uint64_t sequence) {
  const Layout layout = layoutFor(sizeof(Header), size());
  return boards_[rank].subspan(layout.small + (sequence % 2) * kSmall, kSmall);
}

std::span<std::uint64_t> Board::numbers(int rank, std::uint64_t sequence) {
  const Layout layout = layoutFor(sizeof(Header), size());
  std::byte* start = boards_[rank].data() + layout.numbers + (sequence % 2) * layout.numbersBytes;
  return {reinterpret_cast<std::uint64_t*>(start), static_cast<std::size_t>(size()) + 1};
}

std::span<std::byte> Board::staging(int rank) {
  return boards_[rank].subspan(layoutFor(sizeof(Header), size()).staging, kStagingBytes);
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
  const Status status = memory_.wait(
      others_, [&] { return everybody() || anyBroken(); }, deadline);
  if (next == size()) return {};
  // Who broke the group may have left since: its reason counts, not that it is gone.
  if (anyBroken()) return whyBroken();
  if (status.code() != StatusCode::kTimeout) return status.withContext(describe(call_));

  std::vector<std::string> missing;
  for (int rank = 0; rank < size(); ++rank) {
    if ((header(rank).*counter).load(std::memory_order_acquire) < target) {
      missing.push_back(names_[rank]);
    }
  }
  return {StatusCode::kTimeout,
          fmt::format("{}: waited in vain for {}", describe(call_), fmt::join(missing, ", ")),
          members_[next]};
}

void Board::breakUp(const Status& why) {
  Header& mine = header(rank_);
  mine.brokenCode = why.code();
  mine.brokenPeer = why.peer();
  const std::size_t length = std::min(why.message().size(), mine.brokenText.size());
  std::copy_n(why.message().data(), length, mine.brokenText.data());
  mine.brokenLength = static_cast<std::uint32_t>(length);
  mine.broken.store(true, std::memory_order_release);
  memory_.notify(others_);
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
