// A worker's end of the parameter servers.
//
// Parameters and gradients have memory here, laid out as ps/layout.h says. On one host the servers
// read and write it where it lies; otherwise it travels. A step: the worker folds its slices into
// partial(i), says push(block) as soon as a block of all of them is complete, and ends with
// finish(), which returns with the next parameters in area().
//
// To be used by one thread; a Snapshots (below) by another.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "colla/bucket.h"
#include "colla/status.h"
#include "ps/channel.h"
#include "ps/declaration.h"
#include "ps/layout.h"
#include "ps/row_memory.h"
#include "ps/shard.h"
#include "ps/wire.h"
#include "transport/transport.h"

namespace colla::ps {

class HostSums;

struct ClientOptions {
  transport::Transport* transport = nullptr;
  int rank = 0;
  int workers = 1;
  int servers = 1;
  std::vector<std::string> names;  // Of all peers of the transport, for messages.
  // The transport's numbers of the workers, then of the servers: those that are in this epoch.
  // Empty: 0, 1, 2, …
  std::vector<int> peers = {};
  std::chrono::milliseconds timeout{300'000};
  // Where memory that the servers of this host write to comes from; null: the transport's own.
  std::function<Result<Bucket>(std::size_t bytes)> allocate = nullptr;
  // To the workers of this host, where Declaration::hosts has any: its shared memory is theirs.
  transport::Transport* host = nullptr;
};

// What a worker gets to know with its parameters.
struct Turn {
  std::int64_t step = 0;  // Updates made so far.
  std::int64_t late =
      0;                 // How many were made since the worker last got parameters, before its own.
  bool dropped = false;  // The gradients were.
  Stop stop = Stop::kNo;    // The strongest of all workers' reasons.
  std::int64_t behind = 0;  // Steps that the slowest worker was behind this one.
  double scale = 1;  // What the gradients of the last update were multiplied by to clip them.
  std::int64_t samples = 0;  // Of all gradients taken so far.
};

class Client {
 public:
  // Every worker declares the same.
  static Result<std::unique_ptr<Client>> connect(ClientOptions options, Declaration declaration);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Layout& layout() const { return layout_; }
  // What the optimizer of an entry keeps, and how many slots a block has: the most of them.
  std::span<const optim::Slot> slotsOf(int entry) const {
    return rules_[static_cast<std::size_t>(entry)].slots();
  }
  int blockSlots() const { return mostSlots(rules_); }
  // Everything but tables, as of the last step.
  std::span<std::byte> area() const { return areas_[0].bytes; }
  // A partial sum of gradients, laid out the same.
  std::span<std::byte> partial(int number) const { return areas_[number + 1].bytes; }

  // Worker 0 alone, before start(): what servers hold at first. `slot` -1: parameters.
  Status fill(int block, int slot, std::span<const std::byte> bytes);
  Status fillRows(int partition, int slot, std::int64_t first, std::span<const float> values);
  // `steps`: updates that each entry has had.
  Status start(std::int64_t step, std::span<const std::int64_t> steps);
  // Worker 0 alone, instead of fill() and start(): the training goes on with the parameters, slots
  // and steps that the servers have kept from the epoch before. Returns the number of updates made.
  // kInvalidArgument if they kept nothing, or if the declarations of both epochs differ in more
  // than the workers, who of them has which slices, and their threads.
  Result<std::int64_t> resume();
  // Waits until worker 0 has started the servers.
  Result<Turn> begin();

  // Waits, for as long as it takes, until all other workers have left or are lost.
  Result<Turn> waitForOthers();

  // The partial sums of a block are complete. Does not wait.
  void push(int block);
  // The same for a table's rows: of each partial sum. Once a step for each table.
  Status pushRows(int entry, std::span<const collective::Rows> leaves);
  // Ends the step.
  Result<Turn> finish(const Finish& finish);

  // Values of some rows of a table, one behind the other.
  Status pullRows(int entry, std::span<const std::int64_t> rows, std::span<float> values);

  Result<Statistics> statistics();
  // Says good-bye: servers end when every worker has, or (`again`) wait for other declarations.
  Status leave(bool again = false);
  // Ends this worker's part in an epoch: the servers keep what they hold, and wait for the workers
  // of the next one, who connect() with their own declarations and whose worker 0 calls resume(). A
  // worker that is in both makes a new Client.
  Status leaveEpoch();

 private:
  struct Memory {
    std::span<std::byte> bytes;
    std::shared_ptr<const void> shared;
    AlignedBytes own;  // Where there is no shared memory.
  };
  class Sender;

  Client(ClientOptions options, Declaration declaration, Layout layout,
         std::vector<optim::UpdateRule> rules, PushPlan plan);
  Status allocate(int partials);
  // Workers of this host with whom this one adds gradients before they leave it.
  bool hasNeighbours() const;
  Status meetNeighbours();
  void pushOwnRows(int entry, std::span<const collective::Rows> leaves);
  Status attach();
  Status farewell(Farewell farewell);
  Result<Turn> parametersFrom(std::vector<Channel::Expected> expected, Deadline deadline);
  Deadline deadline() const { return Deadline::after(options_.timeout); }

  const ClientOptions options_;
  const Declaration declaration_;
  const Layout layout_;
  const std::vector<optim::UpdateRule> rules_;  // By entry.
  const PushPlan plan_;
  transport::SharedMemory* const shared_;
  std::vector<Memory> areas_;
  std::vector<std::unique_ptr<Channel>> servers_;
  std::unique_ptr<HostSums> sums_;         // Where workers of this host add before they push.
  std::unique_ptr<Sender> sender_;         // Where pushes travel.
  std::unique_ptr<RowMemory> pushedRows_;  // Where they don't: those of the step,
  std::unique_ptr<RowMemory> pulledRows_;  // and those of one pull.
  std::int64_t step_ = 0;                  // Updates made when this worker last got parameters.
  std::vector<std::vector<std::int64_t>> asked_;  // pullRows(): rows of each server,
  std::vector<std::vector<std::size_t>> places_;  // and where their values go.
};

// Reads what the servers hold at one step, while training goes on. For worker 0's saving thread.
class Snapshots {
 public:
  Snapshots(const ClientOptions& options, const Layout& layout);

  // The step that the servers were at when they took one. If they have one of step `held`
  // (Finish::snapshotAt), it is that; -1: in any case a new one.
  Result<std::int64_t> take(std::int64_t held = -1);
  // Of the one last taken.
  Status readBlock(int block, int slot, std::span<std::byte> out);
  Status readRows(int partition, int slot, std::int64_t first, std::span<float> out);
  Result<std::vector<std::int64_t>> steps();

 private:
  Deadline deadline() const { return Deadline::after(options_.timeout); }

  const ClientOptions options_;
  const Layout& layout_;
  std::vector<std::unique_ptr<Channel>> servers_;
  std::int64_t step_ = 0;
};

}  // namespace colla::ps
