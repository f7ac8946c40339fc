// The two levels of a group that spans hosts: inside a host its ranks share memory, between hosts
// they send messages. A collective on two levels is made of phases, each in one crew: inside,
// across, inside. No phase waits for memory and messages at once, and a rank's messages have all
// left before it waits for memory, because nobody else moves them.
//
// Lane number L is a crew with one rank of each host: the local rank L, or L modulo the host's
// ranks where there are fewer. The first rails() lanes have no rank in common: they share the work
// of what can be cut anywhere. There are lanes() of them, so that each rank has a lane of its own
// number; a rank in several takes them in ascending order.
//
// Every collective of such a group begins with a meeting inside, so that ranks of a host that call
// different things find out there.
//
// Not thread safe: a group runs one operation at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "colla/topology.h"
#include "collective/board.h"
#include "collective/crew.h"
#include "transport/shared_memory.h"

namespace colla::collective {

class Levels {
 public:
  // `whole` is the group, of which `topology` says who is where; `host` reaches this host's
  // members.
  Levels(const Crew& whole, Topology topology, transport::Transport* host);

  const Topology& topology() const { return topology_; }
  // This rank's host, of topology().hosts().
  int host() const { return host_; }
  // The ranks of this host, by their numbers in the group.
  std::span<const int> ranksHere() const { return topology_.ranksOn(host_); }

  const Crew& inside() const { return inside_; }
  int rails() const { return rails_; }
  int lanes() const { return lanes_; }
  // The local rank of `host` that is in a lane.
  int localRankIn(int lane, int host) const {
    return lane % static_cast<int>(topology_.ranksOn(host).size());
  }
  // This rank is in a lane.
  bool takes(int lane) const { return localRankIn(lane, host_) == inside_.rank; }
  // A lane that this rank is in; members are numbered as their hosts.
  const Crew& across(int lane) const { return across_[lane / inside_.size()]; }

  // Once the host's ranks have met. A rank alone on its host has none.
  void setBoard(std::unique_ptr<Board> board);
  Board* board() { return board_.get(); }
  // The number of the next meeting on the board, the same on all ranks of the host.
  std::uint64_t nextMeeting() { return ++meetings_; }

  // Memory that the ranks of this host share, for copies of private buffers. Stays in place, with
  // what it holds, until a longer one is asked for.
  Result<std::span<std::byte>> copies(std::size_t bytes);
  // Memory of this rank alone, for sums on their way.
  std::byte* sums(std::size_t bytes);

 private:
  const Topology topology_;
  const int host_;
  Crew inside_;
  int rails_ = 0;
  int lanes_ = 0;
  std::vector<Crew> across_;  // Lane inside_.rank, and every inside_.size()-th after it.
  std::unique_ptr<Board> board_;
  std::uint64_t meetings_ = 0;
  transport::Mapping copies_;
  std::unique_ptr<std::byte[]> sums_;
  std::size_t sumsBytes_ = 0;
};

}  // namespace colla::collective
