// Messages that somebody has sent and that may still be on their way. Never blocks.
//
// Not thread safe.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace colla::transport {

class Outbox {
 public:
  explicit Outbox(Transport& transport) : transport_(transport) {}
  // Withdraws what is still under way.
  ~Outbox();
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // Takes the bytes over.
  void send(int peer, const Envelope& envelope, std::vector<std::byte> bytes);
  // Bytes that `keep` holds in place: one copy can go to several peers.
  void send(int peer, const Envelope& envelope, std::span<const std::byte> bytes,
            std::shared_ptr<const void> keep);
  // Forgets what has arrived. A peer that is lost is noticed by who listens to it.
  void sweep();
  // Gives what is left until the deadline to leave.
  void flush(Deadline deadline);

 private:
  struct Letter {
    std::shared_ptr<const void> keep;
    Request request;
  };
  Transport& transport_;
  std::list<Letter> letters_;
};

}  // namespace colla::transport
