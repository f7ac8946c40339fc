// Threads that share out the items of a loop.
//
// forEach() is for one thread, which takes part in it; the others sleep in between.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

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
  std::mutex mutex_;
  std::condition_variable called_;
  std::condition_variable idle_;
  const Body* body_ = nullptr;  // Of the loop under way; null when all its items are taken.
  std::size_t count_ = 0;
  std::uint64_t loop_ = 0;
  int busy_ = 0;  // Threads in the loop, without the caller.
  bool closing_ = false;
  std::atomic<std::size_t> next_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace colla::ps
