// Points in time after which a wait gives up, and where the time comes from.
#pragma once

#include <algorithm>
#include <chrono>

namespace colla {

using TimePoint = std::chrono::steady_clock::time_point;

// The time, for code whose decisions depend on it: tests pass a clock of their own instead of
// sleeping.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const { return std::chrono::steady_clock::now(); }

  static const Clock& real() {
    static const Clock clock;
    return clock;
  }
};

// A limit for a whole operation, however many waits it is made of. Copyable, immutable.
class Deadline {
 public:
  static Deadline at(TimePoint when) { return Deadline(when); }
  static Deadline after(std::chrono::nanoseconds duration) {
    const TimePoint now = std::chrono::steady_clock::now();
    return duration > TimePoint::max() - now ? never() : Deadline(now + duration);
  }
  static Deadline never() { return Deadline(TimePoint::max()); }

  TimePoint when() const { return when_; }
  bool expired() const { return expired(std::chrono::steady_clock::now()); }
  bool expired(TimePoint now) const { return now >= when_; }

  // What is left, never below zero, and at most `limit`: what to pass to a system call that
  // should come back now and then.
  std::chrono::nanoseconds remaining(
      std::chrono::nanoseconds limit = std::chrono::hours(24)) const {
    const TimePoint now = std::chrono::steady_clock::now();
    if (when_ <= now) return std::chrono::nanoseconds(0);
    return std::min<std::chrono::nanoseconds>(when_ - now, limit);
  }
  Deadline earlier(Deadline other) const { return Deadline(std::min(when_, other.when_)); }

 private:
  explicit Deadline(TimePoint when) : when_(when) {}
  TimePoint when_;
};

}  // namespace colla
