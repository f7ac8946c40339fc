// A worker's way to one server: asks go out in order, answers are waited for.
//
// Used by one thread, apart from others on the same transport.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "colla/status.h"
#include "ps/outbox.h"
#include "ps/wire.h"
#include "transport/transport.h"

namespace colla::ps {

class Channel {
 public:
  Channel(transport::Transport& transport, int peer, std::string name, std::uint32_t channel)
      : transport_(transport),
        outbox_(transport),
        peer_(peer),
        name_(std::move(name)),
        channel_(channel) {}

  int peer() const { return peer_; }
  // Does not wait. The ask's number, by which its answer is known.
  std::uint32_t ask(Ask ask, std::vector<std::byte> payload = {});
  // The number of an ask that somebody else sends.
  std::uint32_t reserve() { return sequence_++; }
  std::uint32_t number() const { return channel_; }

  struct Reply {
    Answer head;
    std::vector<std::byte> payload;
  };
  // An ask and its answer.
  Result<Reply> call(const Ask& ask, std::vector<std::byte> payload, Deadline deadline);

  // One ask of each of several channels.
  struct Expected {
    Channel* channel;
    std::uint32_t sequence;
    // Where the result goes, one message after another; empty: it becomes the reply's payload.
    std::vector<std::span<std::byte>> targets = {};
  };
  // All answers. The first error that comes ends the wait: one that a server answered with, or the
  // loss of a server.
  static Result<std::vector<Reply>> wait(std::span<const Expected> expected, Deadline deadline);

 private:
  Status receive(const Expected& expected, Reply& reply, std::deque<transport::Request>& requests);

  transport::Transport& transport_;
  Outbox outbox_;
  const int peer_;
  const std::string name_;
  const std::uint32_t channel_;
  std::uint32_t sequence_ = 0;
};

}  // namespace colla::ps
