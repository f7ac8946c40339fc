// Sleeping until another thread or process has changed something in memory that both see.
//
// The waiter spins for a while, soon yielding to others, then announces that it sleeps and asks the
// kernel to wake it (futex). The one who changes something makes its change visible and rings: when
// nobody sleeps that costs one fence and one load.
//
// Lives in shared memory: plain layout, zero is a valid start.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

#include "base/deadline.h"

namespace colla::transport {

inline void relaxCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

inline constexpr std::chrono::microseconds kSpinWithoutYield{20};

struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> rings;
  std::atomic<std::uint32_t> sleepers;

  // After the change that waiters look for.
  void ring() {
    // Pairs with the fence in wait(): either this load sees the sleeper, or the sleeper's last
    // look sees the change.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_relaxed) == 0) return;
    rings.fetch_add(1, std::memory_order_release);
    syscall(SYS_futex, &rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

  // Until ready(), for at most `spin` and then, once, until the deadline or for `longest`. Returns
  // ready(). Adds to `waited` how long that took, less the looks after the clock was last read.
  template <typename Ready>
  bool wait(const Ready& ready, std::chrono::nanoseconds spin, Deadline until,
            std::chrono::nanoseconds longest, std::chrono::nanoseconds& waited) {
    constexpr int kLooksPerClock = 32;  // Reading the clock costs about as much as these.
    const auto start = std::chrono::steady_clock::now();
    for (auto spun = start - start; spun <= spin; spun = std::chrono::steady_clock::now() - start) {
      // On a busy machine the one that is waited for may need this core.
      if (spun > kSpinWithoutYield) sched_yield();
      for (int i = 0; i < kLooksPerClock; ++i) {
        if (ready()) {
          waited += spun;
          return true;
        }
        relaxCpu();
      }
    }

    const std::uint32_t seen = rings.load(std::memory_order_acquire);
    sleepers.fetch_add(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!ready()) {
      const auto sleep = until.remaining(longest);
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(sleep);
      const timespec limit{seconds.count(), (sleep - seconds).count()};
      syscall(SYS_futex, &rings, FUTEX_WAIT, seen, &limit, nullptr, 0);
    }
    sleepers.fetch_sub(1, std::memory_order_relaxed);
    waited += std::chrono::steady_clock::now() - start;
    return ready();
  }
  template <typename Ready>
  bool wait(const Ready& ready, std::chrono::nanoseconds spin, Deadline until,
            std::chrono::nanoseconds longest = std::chrono::hours(24)) {
    std::chrono::nanoseconds waited{};
    return wait(ready, spin, until, longest, waited);
  }
};
static_assert(sizeof(Doorbell) == 64 && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace colla::transport
