#include "ps/team.h"

#include <pthread.h>

namespace colla::ps {

Team::Team(int threads, std::size_t worthSharing) : worthSharing_(worthSharing) {
  for (int i = 1; i < threads; ++i) {
    threads_.emplace_back([this] { run(); });
    pthread_setname_np(threads_.back().native_handle(), "colla-team");
  }
}

Team::~Team() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  called_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::forEach(std::size_t count, std::size_t bytes, const Body& body) {
  if (count <= 1 || bytes < worthSharing_ || threads_.empty()) {
    for (std::size_t i = 0; i < count; ++i) body(i);
    return;
  }
  {
    const MutexLock lock(mutex_);
    body_ = &body;
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
    ++loop_;
  }
  called_.notify_all();
  takeItems(body, count);
  // A thread that wakes up only now finds nothing left to do; the caller need not wait for it.
  const MutexLock lock(mutex_);
  body_ = nullptr;
  while (busy_ != 0) idle_.wait(mutex_);
}

void Team::takeItems(const Body& body, std::size_t count) {
  for (std::size_t i = next_++; i < count; i = next_++) body(i);
}

void Team::run() {
  std::uint64_t seen = 0;
  mutex_.lock();
  while (true) {
    while (!closing_ && (body_ == nullptr || loop_ == seen)) called_.wait(mutex_);
    if (closing_) break;
    seen = loop_;
    ++busy_;
    const Body& body = *body_;
    const std::size_t count = count_;
    mutex_.unlock();
    takeItems(body, count);
    mutex_.lock();
    if (--busy_ == 0) idle_.notify_one();
  }
  mutex_.unlock();
}

}  // namespace colla::ps
