// Wakes the one thread that waits for messages and for work from this process.
//
// The ring is itself a message, from the process to itself, so that one wait is for both.
#pragma once

#include <cstdint>
#include <span>

#include "base/deadline.h"
#include "base/thread_annotations.h"
#include "transport/transport.h"

namespace colla::named {

class Wake {
 public:
  // `transport` is null in a job of one process; `group` as in Mailbox.
  Wake(transport::Transport* transport, std::uint32_t group);
  ~Wake();
  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;

  // From any thread, after what the waiter is to look at has been put in place.
  void ring();

  // For the one thread: until ring() was called, one of `requests` is done, or the deadline.
  // Whatever is in place when it returns has been rung for, or will be.
  void wait(std::span<transport::Request*> requests, Deadline deadline);

 private:
  void listen() COLLA_REQUIRES(mutex_);

  transport::Transport* const transport_;
  const std::uint32_t group_;
  Mutex mutex_;
  Condition changed_;
  bool rung_ COLLA_GUARDED_BY(mutex_) = false;
  std::uint32_t number_ COLLA_GUARDED_BY(mutex_) = 0;
  transport::Request outgoing_;
  transport::Request incoming_;
};

}  // namespace colla::named
