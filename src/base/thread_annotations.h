// Clang's thread-safety annotations, and a mutex that carries them. Empty for other compilers.
#pragma once

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

// std::mutex with annotations; works with std::condition_variable_any.
class COLLA_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() COLLA_ACQUIRE() { mutex_.lock(); }
  bool try_lock() COLLA_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() COLLA_RELEASE() { mutex_.unlock(); }

 private:
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

}  // namespace colla
