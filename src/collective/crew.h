// Some of a group's ranks, numbered anew, and how they reach each other: what an algorithm needs to
// know of those who carry it out. A group is a crew; where it spans hosts, so are its ranks on one
// host, and one rank of each host (levels.h).
#pragma once

#include <string>
#include <vector>

namespace colla::transport {
class Transport;
}

namespace colla::collective {

class Board;

struct Crew {
  int size() const { return static_cast<int>(members.size()); }

  int rank = 0;                               // This rank's number in the crew.
  std::vector<int> members;                   // Transport numbers, in the order of ranks.
  std::vector<std::string> names;             // Of the members, for messages.
  transport::Transport* transport = nullptr;  // To all members.
  Board* board = nullptr;                     // Null where the members share no memory.
};

}  // namespace colla::collective
