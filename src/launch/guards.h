// What starts, signals and ends a job's processes for the front: the guardian of this host
// (guardian.h), or the agents of several (hosts.h).
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/deadline.h"
#include "colla/status.h"

namespace colla::launch {

struct Order {
  enum class Kind : std::int32_t {
    kStart,   // Start the processes, in order.
    kSignal,  // Send `signal` to the process groups of those that run.
    kEnd,     // Kill whatever is left, say kEnded and exit.
  };
  Kind kind;
  std::int32_t signal = 0;
};

struct Event {
  enum class Kind : std::int32_t {
    kStarted,     // `value` is its pid.
    kNotStarted,  // `value` is the errno.
    kExited,      // `value` is the exit code. Events of ends come in the order of the ends.
    kKilled,      // `value` is the signal.
    kLost,        // Its host is lost, and it with it.
    kEnded,       // No process is left but `value` that could not be killed.
  };
  Kind kind;
  std::int32_t process = 0;
  std::int32_t value = 0;
};

// Not thread safe.
class Guards {
 public:
  virtual ~Guards() = default;

  // Orders to guards that are gone have no effect: next() tells.
  virtual void send(Order order) = 0;
  // Adds what to wait for to `polls`; then what came of it, from `polls[at]` on: whether there are
  // events.
  virtual void prepare(std::vector<pollfd>& polls) = 0;
  virtual bool handle(const std::vector<pollfd>& polls, std::size_t at, TimePoint now) = 0;
  // When to call handle() even if nothing is ready.
  virtual TimePoint nextDeadline() const = 0;
  // The next event without waiting. kCancelled if there is none now, kPeerLost if the guards are
  // gone.
  virtual Result<Event> next() = 0;
  // Waits for their end, which must be on its way.
  virtual void wait() = 0;
  // This process is stopped for a while.
  virtual void pause() = 0;
  // What they get to end everything. If they are only slow, no harm is done: the front then does
  // the same.
  virtual std::chrono::milliseconds endLimit() const = 0;
};

}  // namespace colla::launch
