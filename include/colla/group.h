// Ranks that do collectives together.
//
// Thread safety: callable from any thread, but all ranks of a Group must issue its collectives in
// the same order; they are carried out in that order. Different Groups are independent.
//
// After an error of a collective that is not the caller's own (anything but kInvalidArgument) the
// group is broken on every rank: each later collective returns kGroupBroken with the first reason.
// send() and recv() concern two ranks alone, and break nothing.
//
// A Group must not outlive its Job.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>

#include "colla/status.h"

namespace colla {

class GroupCore;

// What became of an operation that was started with async(). Copyable; the operation goes on
// whether or not anybody holds its Handle.
class Handle {
 public:
  // The operation has ended: wait() returns at once.
  bool done() const;
  // Returns once the operation has ended; it has a deadline of its own, so this always returns.
  Status wait() const;

 private:
  friend class Group;
  struct State;
  explicit Handle(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

class Group {
 public:
  explicit Group(std::unique_ptr<GroupCore> core);
  // Waits for the operations that are under way.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // This process's number in the group.
  int rank() const;
  int size() const;

  // A group of some of this group's ranks (by their numbers here, without repetition; their order
  // is the new numbering). To be called by exactly those ranks. kUnsupported when its number, a
  // hash, is that of another group of this rank's that still lives.
  Result<std::unique_ptr<Group>> subgroup(std::span<const int> ranks);

  // Runs `operation` (one or more collectives on this group) on the group's progress thread,
  // behind what was started before it. Buffers must stay in place until the handle is done. A
  // blocking collective waits for these first.
  Handle async(std::function<Status(Group&)> operation);

  GroupCore& core() { return *core_; }

 private:
  std::unique_ptr<GroupCore> core_;
};

}  // namespace colla
