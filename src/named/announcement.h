// What ranks and the coordinator tell each other.
//
// A rank reports what was submitted to it; the coordinator (rank 0) orders what is to be carried
// out. Decoding trusts nobody: every count is checked before anything is allocated, and every value
// is one that the encoder could have written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "colla/data_type.h"
#include "colla/status.h"
#include "named/request.h"

namespace colla::named {

// The set of what concerns the exchange itself, which all ranks are members of: no request has it.
inline constexpr int kOwnSet = -1;
inline constexpr int kWorldSet = 0;
inline constexpr const char* kJoinName = "join";
inline constexpr const char* kSetsName = "sets";  // Adding and removing: one at a time.

// What an operation is known by. Sets have names of their own.
struct Key {
  int set = kWorldSet;
  std::string name;

  friend auto operator<=>(const Key&, const Key&) = default;
};

// Requests that were submitted together: told by the first of their names and their number, which
// is 0 for a request that came alone.
struct GroupMark {
  std::string first;
  std::uint32_t count = 0;

  friend auto operator<=>(const GroupMark&, const GroupMark&) = default;
};

// A request, without its memory.
struct Announcement {
  Key key;
  Kind kind = Kind::kAllreduce;
  DataType type = DataType::kFloat32;
  std::vector<std::int64_t> shape = {};  // kAddSet: the ranks.
  Op op = Op::kSum;
  double prescale = 1;
  double postscale = 1;
  int root = 0;  // kRemoveSet: the set.
  GroupMark group = {};

  friend bool operator==(const Announcement&, const Announcement&) = default;
};

// From a rank to the coordinator.
struct Report {
  std::vector<Announcement> announcements;
  Status end;  // Bad: this rank goes, or knows why nobody can go on.
};

// One operation that all members carry out, or the reason why they can't.
struct Decision {
  Announcement what;  // As every member has announced it (allgather, alltoall: as one).
  std::vector<std::int64_t> rows;  // Allgather: of each member.
  int number = 0;                  // kJoin: the last rank; kAddSet: the new set.
  Status error;
  std::vector<int> ranks;  // With an error: whom it concerns.
};

// Decisions that travel as one.
using Batch = std::vector<Decision>;

// From the coordinator to every rank, to be carried out in this order.
struct Orders {
  std::vector<Batch> batches;
  Status end;  // Bad: the exchange ends, with this, after the batches.
};

std::vector<std::byte> encode(const Report& report);
std::vector<std::byte> encode(const Orders& orders);
// kMismatch for bytes that are damaged.
Result<Report> decodeReport(std::span<const std::byte> bytes);
Result<Orders> decodeOrders(std::span<const std::byte> bytes);

// The number of elements; nothing when a dimension is negative, or their bytes are beyond 2^60.
std::optional<std::int64_t> elementsOf(std::span<const std::int64_t> shape, DataType type);
// "[3, 4]".
std::string toText(std::span<const std::int64_t> shape);

}  // namespace colla::named
