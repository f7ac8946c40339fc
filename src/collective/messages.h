// The messages of one collective on one rank: posted in any number, then waited for together.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "collective/group_core.h"

namespace colla::collective {

class Messages {
 public:
  explicit Messages(GroupCore::Turn& turn) : turn_(turn) {}
  // Withdraws what nobody waited for.
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // `step` tells the messages between two ranks apart within this round of the operation.
  void send(int rank, std::uint32_t step, std::span<const std::byte> data);
  void recv(int rank, std::uint32_t step, std::span<std::byte> data);
  // Until everything that was posted is done.
  Status wait();

 private:
  transport::Envelope envelope(std::uint32_t step) const;
  const std::string& nameOf(int peer) const;
  Status explain(const Status& status);
  Status findLate();
  std::vector<int> unfinished() const;

  GroupCore::Turn& turn_;
  std::deque<transport::Request> requests_;
  std::vector<transport::Request*> pending_;
  TimePoint since_;  // wait() was called.
};

}  // namespace colla::collective
