// What a server knows of one worker.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ps/pushed_rows.h"
#include "ps/server.h"

namespace colla::ps {

struct Server::Worker {
  bool declared = false;
  bool gone = false;
  // Where its memory is seen from here; empty: it sends messages.
  std::vector<transport::Mapping> areas;  // Parameters first, then each partial sum's.

  // Of its present step.
  std::map<int, std::vector<AlignedBytes>> staged;  // By block: partial sums that were sent.
  struct TableRows {
    std::vector<PushedRows> leaves;
    std::vector<std::byte> payload;  // What holds their values,
    transport::Mapping keep;         // one or the other.
  };
  std::map<int, TableRows> rows;  // By entry.
  std::set<int> pushed;           // Blocks.
  Status refusal;                 // What is wrong with them.
  std::optional<Finish> finish;
  std::int64_t clock = 0;  // Steps that it has finished.
  std::int64_t step = 0;
  std::int64_t late = 0;  // What became of them.
  bool dropped = false;
  std::optional<Asked> waits;  // For parameters.
};

struct Server::Snapshot {
  std::int64_t step = 0;
  std::vector<std::int64_t> steps;
  // By block and by partition: parameters, then each slot.
  std::map<int, std::vector<std::vector<std::byte>>> blocks;
  std::map<int, std::vector<std::vector<std::byte>>> partitions;
};

}  // namespace colla::ps
