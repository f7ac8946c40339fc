// Threads that share the items of a loop among themselves.
//
// One thread calls forEach() and takes part in it; the others sleep in between. They are named
// "colla-team", which is what `top -H` shows.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "base/thread_annotations.h"

namespace colla::ps {

class Team {
 public:
  // What it takes to wake somebody up, and to wait for it where cores are busy, must be worth it.
  static constexpr std::size_t kWorthSharing = std::size_t{4} << 20;

  // So many in all, with the one that calls. It does loops of fewer bytes than `worthSharing`
  // alone.
  explicit Team(int threads, std::size_t worthSharing = kWorthSharing);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls body(i) for every i below `count`, in any order and from any of the threads. Returns when
  // all calls have; what they wrote is seen by the caller. `bytes`: how much memory all of them
  // go through, about.
  void forEach(std::size_t count, std::size_t bytes, const std::function<void(std::size_t)>& body);

 private:
  using Body = std::function<void(std::size_t)>;
  void run();
  void takeItems(const Body& body, std::size_t count);

  const std::size_t worthSharing_;
  Mutex mutex_;
  std::condition_variable_any called_;
  std::condition_variable_any idle_;
  // The body of the loop under way; null when all of its items are taken.
  const Body* body_ COLLA_GUARDED_BY(mutex_) = nullptr;
  std::size_t count_ COLLA_GUARDED_BY(mutex_) = 0;
  std::uint64_t loop_ COLLA_GUARDED_BY(mutex_) = 0;
  int busy_ COLLA_GUARDED_BY(mutex_) = 0;  // Threads in the loop, without the caller.
  bool closing_ COLLA_GUARDED_BY(mutex_) = false;
  std::atomic<std::size_t> next_ = 0;  // The item of the loop that nobody has taken yet.
  std::vector<std::thread> threads_;
};

}  // namespace colla::ps
