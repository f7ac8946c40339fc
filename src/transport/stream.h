// A reliable, ordered pipe of bytes to one peer, in both directions, that never blocks.
//
// The Messenger speaks Colla's frames over it; the rendezvous store its requests. Not thread
// safe: its owner serialises all calls.
#pragma once

#include <cstddef>
#include <span>

#include "colla/status.h"

namespace colla::transport {

class Bodies;

class Stream {
 public:
  virtual ~Stream() = default;

  // How many bytes were read into `out`; 0 when none are there now. kPeerLost once the other side
  // is gone and everything that it sent has been read.
  virtual Result<std::size_t> read(std::span<std::byte> out) = 0;
  // How many bytes of `data` were taken; 0 when there is no room now.
  virtual Result<std::size_t> write(std::span<const std::byte> data) = 0;

  // Whether the other side's machine may not have all that was written: closing now could lose the
  // rest.
  virtual bool inFlight() { return false; }

  // What moves large messages beside this stream; null where they go through it in parts.
  virtual Bodies* bodies() { return nullptr; }

  // What to poll for news; -1 where there is nothing to poll (memory of this host).
  virtual int fd() const { return -1; }
};

}  // namespace colla::transport
