// How long a wait spins before it sleeps.
//
// A caller that waits has nothing else to do with its core: spinning through a peer's delay is
// cheaper than being woken. A thread that works behind the caller's back takes the core from it.
#pragma once

#include <chrono>

namespace colla::transport {

struct Spin {
  std::chrono::microseconds caller{20};
  std::chrono::microseconds background{20};

  // What holds for the thread that asks.
  std::chrono::nanoseconds here() const;
};

// As long as it lives, its thread is one that works in the background.
class BackgroundThread {
 public:
  BackgroundThread();
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  // Whether the thread that asks is one.
  static bool isThis();
};

}  // namespace colla::transport
