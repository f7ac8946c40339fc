// Clang's thread-safety annotations, and a mutex that carries them. Empty for other compilers.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define COLLA_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define COLLA_THREAD_ATTRIBUTE(x)
#endif

#define COLLA_GUARDED_BY(x) COLLA_THREAD_ATTRIBUTE(guarded_by(x))
#define COLLA_REQUIRES(...) COLLA_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define COLLA_EXCLUDES(...) COLLA_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define COLLA_ACQUIRE(...) COLLA_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define COLLA_TRY_ACQUIRE(...) COLLA_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define COLLA_RELEASE(...) COLLA_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))

namespace colla {

// std::mutex with annotations.
class COLLA_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() COLLA_ACQUIRE() { mutex_.lock(); }
  bool try_lock() COLLA_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() COLLA_RELEASE() { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

// Holds a Mutex for the rest of a scope.
class COLLA_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) COLLA_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() COLLA_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// std::condition_variable for a Mutex that the caller holds. There are no predicates, because the
// analysis does not look into lambdas: write `while (!ready_) changed_.wait(mutex_);`.
class Condition {
 public:
  void wait(Mutex& mutex) COLLA_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  template <typename Rep, typename Period>
  std::cv_status wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> time)
      COLLA_REQUIRES(mutex) {
    return wait_until(mutex, std::chrono::steady_clock::now() + time);
  }
  template <typename Clock, typename Duration>
  std::cv_status wait_until(Mutex& mutex, std::chrono::time_point<Clock, Duration> time)
      COLLA_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = condition_.wait_until(lock, time);
    lock.release();
    return status;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace colla
