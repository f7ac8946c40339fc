// Threads that run what a program has attached to futures.
//
// A callback may do anything: compute, wait for a different operation, or never return. So no
// thread that serves collectives or messages may run one: the operation that it waits for would be
// that thread's to serve. A callback that waits holds one of these threads, and a new one is
// started for the next callback, however many wait. One idle thread is kept.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include <functional>
#include <memory>

namespace colla::c10d {

class Callbacks {
 public:
  Callbacks();
  // What was handed over still runs; nobody waits for it.
  ~Callbacks();
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  // Runs `callback` on a thread of its own. Callbacks begin in the order of these calls.
  void run(std::function<void()> callback);
  // How many have not returned; the one that calls this, if one does, is not counted.
  int pending() const;
  // The calling thread is one of those that run callbacks, of any Callbacks.
  static bool onThread();

 private:
  struct State;
  static void serve(State& state);

  const std::shared_ptr<State> state_;  // Shared with the threads, which may outlive this.
};

}  // namespace colla::c10d
