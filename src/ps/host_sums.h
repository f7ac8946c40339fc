// Adds the gradients of a host's workers before they leave it.
//
// The workers of a host see each other's partial sums in shared memory. Each marks there which
// blocks, and which tables' rows, of the present step it has complete. A part is added by the
// worker that pushes it (ps/push_plan.h) as soon as all of them have marked it, along the part of
// the canonical tree that the host has alone.
//
// Two threads use it: one marks what is complete, the other (ps/sender.h) adds.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "colla/status.h"
#include "collective/rows.h"
#include "ps/layout.h"
#include "ps/push_plan.h"
#include "ps/row_memory.h"
#include "transport/shared_memory.h"
#include "transport/transport.h"

namespace colla::ps {

class HostSums {
 public:
  struct Options {
    transport::Transport* host = nullptr;  // To the workers of this host.
    int worker = 0;
    std::vector<int> peers;          // By worker: its number in the transport.
    std::vector<std::string> names;  // By worker, for messages.
    std::chrono::milliseconds timeout{};
  };

  // Meets the other workers of the host, who call it too. `partials`: this worker's memory for its
  // partial sums, which all of them may write. `layout` and `plan` outlive it.
  static Result<std::unique_ptr<HostSums>> meet(Options options, const Layout& layout,
                                                const PushPlan& plan,
                                                std::span<const std::span<std::byte>> partials);

  // This worker's partial sums of a block, or of a table's rows, are complete.
  void mark(int block);
  // kNoMemory when this host has no room for the rows.
  Status markRows(int entry, std::span<const collective::Rows> leaves);
  // All of a step's sums have been used.
  void endStep();

  // Waits for the others, then adds: the host's partial sums of a block. They lie in the memory of
  // the workers' partial sums until the step ends.
  Result<std::vector<std::span<const std::byte>>> sumBlock(int block);
  // The same for the rows of a table that `server` holds, as RowsWriter writes them.
  Result<std::vector<std::byte>> sumRows(int entry, int server);
  // Ends the waits of the functions above, now and later.
  void stop() { stopped_ = true; }

 private:
  struct RowsMark;
  // A worker of this host, as this one sees it.
  struct Neighbour {
    int worker;
    transport::Mapping slate;                  // Its marks.
    std::vector<transport::Mapping> partials;  // Its partial sums.
  };

  HostSums(Options options, const Layout& layout, const PushPlan& plan);
  Status exchangePlaces(std::span<const std::span<std::byte>> partials);
  std::size_t slateBytes() const;
  std::atomic<std::uint64_t>& blockMark(const transport::Mapping& slate, int block) const;
  RowsMark& rowsMark(const transport::Mapping& slate, int entry) const;
  int peerOf(const Neighbour& neighbour) const { return options_.peers[neighbour.worker]; }
  template <typename MarkOf>
  Status awaitMarks(const MarkOf& markOf, const std::string& name);
  std::span<std::byte> blockOf(const Neighbour& neighbour, int partial, int block) const;
  template <typename Use>
  void forEachLeaf(const Use& use) const;

  const Options options_;
  const Layout& layout_;
  const PushPlan& plan_;
  transport::SharedMemory& memory_;
  RowMemory rows_;
  transport::Mapping slate_;                        // This worker's marks.
  std::vector<std::span<const std::byte>> marked_;  // This worker's rows, by entry.
  std::vector<Neighbour> neighbours_;
  std::vector<int> others_;  // Their peers.
  std::atomic<std::uint64_t> step_ = 1;
  std::atomic<bool> stopped_ = false;
};

}  // namespace colla::ps
