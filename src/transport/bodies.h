// Moves the bodies of large messages beside a Stream, from memory to memory: what a backend brings
// whose network has messages of its own (tag matching, remote memory).
//
// Which message a body is of, both ends learn from the stream: a kWhole frame (frame.h) names it by
// the number that send() gave. A body and its frame may come in any order.
//
// Not thread safe: its owner serialises all calls, together with those of the stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace colla::transport {

class Bodies {
 public:
  // A body has a number among those that this side sends, or among those that the peer sends.
  struct Id {
    std::uint64_t number;
    bool sent;  // By this side.

    friend bool operator==(const Id&, const Id&) = default;
  };

  virtual ~Bodies() = default;

  // Bodies can be sent this way, now or later; otherwise messages go through the stream in parts.
  virtual bool able() const = 0;
  // One more can be sent now.
  virtual bool room() const = 0;
  // Starts to send. The bytes stay in place until the end of it.
  virtual std::uint64_t send(std::span<const std::byte> body) = 0;
  // Takes the body `number` of the peer, which has told of it.
  virtual void receive(std::uint64_t number, std::span<std::byte> into) = 0;
  // Nobody here wants the body `number`, which the peer has told of.
  virtual void refuse(std::uint64_t number) = 0;
  // Ends a body wherever it stands: nobody touches its bytes afterwards.
  virtual void withdraw(Id id) = 0;
  // Appends those that ended since the last call: of ours, the peer has taken all or wants no more.
  // One that can't end well never ends: the stream tells why.
  virtual void poll(std::vector<Id>& ended) = 0;
};

}  // namespace colla::transport
