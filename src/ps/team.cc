#include "ps/team.h"

namespace colla::ps {

Team::Team(int threads, std::size_t worthSharing) : worthSharing_(worthSharing) {
  for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

Team::~Team() {
  {
    const std::lock_guard lock(mutex_);
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
    const std::lock_guard lock(mutex_);
    body_ = &body;
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
    ++loop_;
  }
  called_.notify_all();
  takeItems(body, count);
  // Who wakes up only now has nothing left to do: it is not waited for.
  std::unique_lock lock(mutex_);
  body_ = nullptr;
  idle_.wait(lock, [this] { return busy_ == 0; });
}

void Team::takeItems(const Body& body, std::size_t count) {
  for (std::size_t i = next_++; i < count; i = next_++) body(i);
}

void Team::run() {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    called_.wait(lock, [&] { return closing_ || (body_ != nullptr && loop_ != seen); });
    if (closing_) return;
    seen = loop_;
    ++busy_;
    const Body& body = *body_;
    const std::size_t count = count_;
    lock.unlock();
    takeItems(body, count);
    lock.lock();
    if (--busy_ == 0) idle_.notify_one();
  }
}

}  // namespace colla::ps
