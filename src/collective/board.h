// The part of shared memory through which the ranks of a group on one host meet.
//
// Every rank has a board of its own: it alone writes it, all read it. An operation starts with
// arrive(): the rank posts what it called and where its buffers lie, and waits until everybody
// has. From then on all ranks know all calls, so every one of them finds a mismatch by itself.
//
// Posts are double-buffered by the parity of the sequence number. That is enough, because a rank
// leaves operation s+1 only after everybody has arrived there, and so has done with s.
//
// A rank that fails says so on its board: everybody who waits is told at once, and why.
//
// Not thread safe but for breakUp(): a group runs one operation at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/metrics.h"
#include "colla/status.h"
#include "collective/memory_shelf.h"
#include "transport/shared_memory.h"
#include "transport/transport.h"

namespace colla::collective {

class Board {
 public:
  // Largest payload that travels in the post itself: one meeting instead of two.
  static constexpr std::size_t kSmall = 8192;
  // Memory for data on its way, of each rank: two halves of a MiB. Room for a few chunks of the
  // staged allreduce (kLargestChunk).
  static constexpr std::size_t kStagingBytes = 2 << 20;
  // Most buffers that a rank can post.
  static constexpr std::size_t kMostInputs = 24;

  // Where a rank's buffers lie, for operations that look at them there.
  struct Post {
    transport::Place result;  // What the others may write.
    std::array<transport::Place, kMostInputs> inputs;
    bool copied = false;  // On two levels: these are copies, of a block at a time.
  };

  // This rank's board alone; `members` are the ranks' transport numbers, and `names` what to call
  // them. Its memory comes from `shelf`, and goes back there. Nothing but place(), open() and
  // breakUp() may be called before open() has succeeded.
  static Result<std::unique_ptr<Board>> create(transport::SharedMemory& memory,
                                               std::shared_ptr<MemoryShelf> shelf,
                                               std::vector<int> members, int rank,
                                               std::vector<std::string> names);
  ~Board();
  // Where it is, for the others.
  transport::Place place() const { return memory_.find(boards_[rank_]); }
  // Finds the others' boards at their places, and waits until everybody has.
  Status open(std::span<const transport::Place> places, const transport::Call& call,
              Deadline deadline);

  int size() const { return static_cast<int>(members_.size()); }
  transport::SharedMemory& memory() { return memory_; }

  // What this rank calls and posts next: to be filled before arrive().
  Post& draft(std::uint64_t sequence, const transport::Call& call);
  std::span<std::byte> small(int rank, std::uint64_t sequence);
  // Where the parts of a rank start, for operations whose parts have sizes of their own: one number
  // per rank and one more for the end, of what it sends and of what it expects.
  std::span<std::uint64_t> sends(int rank, std::uint64_t sequence);
  std::span<std::uint64_t> expects(int rank, std::uint64_t sequence);

  // Posts the draft and waits for everybody's; kMismatch when the calls differ.
  Status arrive(std::uint64_t sequence, Deadline deadline);
  // The same for a call that posts nothing else.
  Status arrive(std::uint64_t sequence, const transport::Call& call, Deadline deadline) {
    draft(sequence, call);
    return arrive(sequence, deadline);
  }
  const Post& posted(int rank, std::uint64_t sequence) { return header(rank).posts[sequence % 2]; }

  // Steps inside an operation, in the same number on every rank: advance() says that this rank
  // has done one more, awaitAll() waits until everybody has done as many as this one, less `lag`.
  void advance();
  Status awaitAll(Deadline deadline, std::uint64_t lag = 0);

  // Of a group with ranks that are not on this board, and for whom members may wait elsewhere.
  struct Outside {
    // Why the group is broken out there; asked now and then while this rank waits here.
    std::function<Status()> news;
    // Hears who seems to be late at a deadline. Then members have a moment to say on the board whom
    // they wait for themselves.
    std::function<void(const Status&)> tellLate;
  };
  void setOutside(Outside outside) { outside_ = std::move(outside); }

  // Ends everybody's waits, now and later, with `why`. From any thread; the first one counts.
  void breakUp(const Status& why);

  // The memory at `place` of `rank`.
  Result<transport::Mapping> map(int rank, transport::Place place, std::size_t bytes,
                                 Deadline deadline);

  // Memory of `rank` for data on its way between private buffers; this rank writes only its own.
  std::span<std::byte> staging(int rank);

 private:
  struct alignas(64) Header {
    // One cache line: who waits for the counter has the call with it.
    std::atomic<std::uint64_t> arrived;
    std::array<transport::Call, 2> calls;
    alignas(64) std::atomic<std::uint64_t> steps;
    alignas(64) std::array<Post, 2> posts;
    // Why this rank broke the group, once it has. On lines of their own: everybody looks at them
    // while waiting, and they hardly ever change.
    alignas(64) std::atomic<bool> broken;
    StatusCode brokenCode;
    std::int32_t brokenPeer;
    std::uint32_t brokenLength;
    std::array<char, 500> brokenText;
  };

  // Where the parts behind the header start, and how long the whole is.
  struct Layout {
    explicit Layout(std::size_t ranks);
    std::size_t small, numbers, numbersBytes, staging, total;
  };
  std::span<std::uint64_t> numbers(int rank, std::size_t list);

  Board(transport::SharedMemory& memory, std::shared_ptr<MemoryShelf> shelf,
        std::vector<int> members, int rank, std::vector<std::string> names);
  Header& header(int rank) { return *reinterpret_cast<Header*>(boards_[rank].data()); }
  Status awaitCounter(std::atomic<std::uint64_t> Header::*counter, std::uint64_t target,
                      Deadline deadline);
  template <typename Ready>
  Status wait(const Ready& ready, Deadline deadline, std::chrono::nanoseconds& waited);
  Status compareCalls(std::uint64_t sequence);
  bool anyBroken();
  Status whyBroken();

  transport::SharedMemory& memory_;
  const std::shared_ptr<MemoryShelf> shelf_;
  std::vector<int> members_;
  std::vector<int> others_;
  int rank_;
  std::vector<std::string> names_;
  Layout layout_;
  std::vector<std::span<std::byte>> boards_;
  transport::Mapping own_;                    // What keeps this rank's in place,
  std::vector<transport::Mapping> mappings_;  // and the others'.
  std::uint64_t steps_ = 0;
  std::atomic_flag brokeUp_;
  std::optional<Outside> outside_;
  transport::Call call_;                                // Of the operation under way.
  std::vector<std::optional<metrics::Counter>> waits_;  // By rank; none for this one.
};

}  // namespace colla::collective
