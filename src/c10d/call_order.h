// The order in which a process group carries out collectives, where callbacks call some of them.
//
// A callback runs at once if its future is complete when it is attached, and otherwise later, on a
// thread of its own. Which of the two it is differs between ranks, but all ranks must carry out
// collectives in one order. It is that of callbacks that run at once: what they call comes before
// everything that the program calls after it has asked for the future. So what is called later is
// held until they have returned.
//
// A callback may also wait for something that is held, and nobody can see that. Therefore a hold
// ends some time after its callbacks have begun, with a warning.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/thread_annotations.h"
#include "c10d/callbacks.h"

namespace colla::c10d {

class CallOrder : public std::enable_shared_from_this<CallOrder> {
 public:
  using Clock = std::chrono::steady_clock;
  // Whether the caller of Work::getFuture() may attach callbacks that call collectives.
  using Asks = bool (*)();

  CallOrder(std::shared_ptr<Callbacks> callbacks, Asks asks);

  // Held for a part of the group's `timeout`: others wait for this rank that long.
  void setTimeout(std::chrono::milliseconds timeout);

  // `start` is called now or, if the call is held, later on a different thread. Returns the call's
  // number; 0 in a callback, where nothing is held.
  std::uint64_t pass(std::function<void()> start);
  // The same for a caller that starts the call itself, when this returns.
  void await();

  // The caller asks for the future of an operation that is not done. Returns the number of a hold,
  // or 0 if the caller's callbacks call no collectives.
  std::uint64_t hold();
  // Calls `complete`, which runs the callbacks, and ends the hold, which is not 0.
  void runHolding(std::uint64_t hold, const std::function<void()>& complete);
  // A callback waits for the operation of this call: nothing may hold it.
  void letGo(std::uint64_t call);
  // Nothing is held any more.
  void close();

 private:
  struct Hold {
    std::uint64_t after;                        // Calls with a higher number are held.
    std::optional<Clock::time_point> end = {};  // Known when the callbacks have begun.
    bool over = false;
  };
  struct Waiting {
    std::uint64_t call;
    std::function<void()> start;  // Empty: the caller waits.
  };

  bool isHeld(std::uint64_t call) COLLA_REQUIRES(mutex_);
  // Until something changes, or the next hold ends by itself.
  void waitForChange() COLLA_REQUIRES(mutex_);
  void serve();

  const std::shared_ptr<Callbacks> callbacks_;
  const Asks asks_;
  Mutex mutex_;
  Condition changed_;
  std::chrono::milliseconds patience_ COLLA_GUARDED_BY(mutex_){0};
  std::uint64_t calls_ COLLA_GUARDED_BY(mutex_) = 0;
  std::uint64_t holdsMade_ COLLA_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, Hold> holds_ COLLA_GUARDED_BY(mutex_);
  // By number. The first one stays until it has been started.
  std::deque<Waiting> waiting_ COLLA_GUARDED_BY(mutex_);
  bool serving_ COLLA_GUARDED_BY(mutex_) = false;
  bool closed_ COLLA_GUARDED_BY(mutex_) = false;
};

}  // namespace colla::c10d
