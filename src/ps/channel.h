// A worker's way to one server: asks go out in order, answers are waited for.
//
// Used by one thread, apart from others on the same transport.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "colla/status.h"
#include "ps/wire.h"
#include "transport/outbox.h"
#include "transport/transport.h"

namespace colla::ps {

// What servers have beyond collective_timeout to answer: they name a worker that does not come
// before the other workers give up on them.
inline constexpr std::chrono::seconds kServersLonger{10};

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
  // All answers. The loss of a server ends the wait. After a server has refused, the others still
  // have some time for their answers, so that no later ask with the same number gets one of these;
  // then the refusal is the error.
  static Result<std::vector<Reply>> wait(std::span<const Expected> expected, Deadline deadline);

 private:
  struct Incoming {
    std::array<std::byte, kAnswerBytes> head;
    std::deque<transport::Request> requests;  // The answer's head, then the messages of its result.
  };
  Result<bool> take(const Expected& expected, Incoming& incoming, Reply& reply);
  static Status silent(std::span<const Expected> expected, std::span<const std::size_t> open,
                       TimePoint since);
  Status receive(const Expected& expected, Reply& reply, std::deque<transport::Request>& requests);

  transport::Transport& transport_;
  transport::Outbox outbox_;
  const int peer_;
  const std::string name_;
  const std::uint32_t channel_;
  std::uint32_t sequence_ = 0;
};

}  // namespace colla::ps
