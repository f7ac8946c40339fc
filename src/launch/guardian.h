// The guardian: a process between `colla run` and the processes of its job, so that either of the
// two can be killed (with -9) and the other one still ends everything.
//
//   colla run (the front)  ──orders──▸  guardian  ──▸  worker 0, worker 1, … ──▸ their children
//                          ◂──events──
//
// The guardian has one thread, decides nothing, and ignores every signal. The processes are its
// children; they die with it (PR_SET_PDEATHSIG), their orphans become the guardian's, and after it
// the front's (both are reapers). When the front goes away the guardian ends what there is, and
// itself; when the guardian does, or no longer answers, the front ends what there is.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "colla/status.h"
#include "launch/spawn.h"

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
    kEnded,       // No process is left but `value` that could not be killed.
  };
  Kind kind;
  std::int32_t process = 0;
  std::int32_t value = 0;
};

// The front's end. Not thread safe.
class Guardian {
 public:
  // Forks the guardian; nothing is started yet. `commands` and their descriptors are copied with
  // it: the caller closes its own copies. The calling process must have one thread. Once nothing of
  // the job is left, the guardian removes the directories `litter`.
  static Result<Guardian> create(const std::vector<Command>& commands, const Inherited& inherited,
                                 const std::vector<std::string>& litter = {});

  Guardian(Guardian&&) = default;
  Guardian& operator=(Guardian&&) = delete;
  // Ends the job, if there still is one, and waits for that.
  ~Guardian();

  // Readable when there is an event or the guardian is gone.
  int fd() const { return channel_.get(); }
  // Orders to a guardian that is gone have no effect: next() tells.
  void send(Order order);
  // The next event without waiting. kCancelled if there is none now, kPeerLost if the guardian is
  // gone.
  Result<Event> next();
  // Waits for its end, which must be on its way.
  void wait();

 private:
  Guardian(UniqueFd channel, pid_t pid) : channel_(std::move(channel)), pid_(pid) {}

  UniqueFd channel_;
  pid_t pid_;
};

}  // namespace colla::launch
