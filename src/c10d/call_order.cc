#include "c10d/call_order.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace colla::c10d {
namespace {

constexpr std::chrono::milliseconds kLongestPatience{10'000};

// The hold whose callbacks this thread runs: what these ask for holds the same calls.
struct Here {
  const CallOrder* order = nullptr;
  std::uint64_t after = 0;
};
thread_local Here here;

}  // namespace

CallOrder::CallOrder(std::shared_ptr<Callbacks> callbacks, Asks asks)
    : callbacks_(std::move(callbacks)), asks_(asks) {}

void CallOrder::setTimeout(std::chrono::milliseconds timeout) {
  const MutexLock lock(mutex_);
  patience_ = std::min(timeout / 4, kLongestPatience);
}

std::uint64_t CallOrder::pass(std::function<void()> start) {
  if (Callbacks::onThread()) {
    start();
    return 0;
  }
  std::uint64_t call = 0;
  {
    const MutexLock lock(mutex_);
    call = ++calls_;
    if (!waiting_.empty() || isHeld(call)) {
      waiting_.push_back({call, std::move(start)});
      if (!serving_) callbacks_->run([self = shared_from_this()] { self->serve(); });
      serving_ = true;
      return call;
    }
  }
  start();
  return call;
}

void CallOrder::await() {
  if (Callbacks::onThread()) return;
  const MutexLock lock(mutex_);
  const std::uint64_t call = ++calls_;
  if (waiting_.empty() && !isHeld(call)) return;
  waiting_.push_back({call, nullptr});
  while (waiting_.front().call != call || isHeld(call)) waitForChange();
  waiting_.pop_front();
  changed_.notify_all();
}

void CallOrder::serve() {
  mutex_.lock();
  while (!waiting_.empty()) {
    const Waiting& next = waiting_.front();
    if (!next.start || isHeld(next.call)) {
      waitForChange();
      continue;
    }
    mutex_.unlock();
    next.start();  // A deque's elements stay where they are while others are added.
    mutex_.lock();
    waiting_.pop_front();
    changed_.notify_all();
  }
  serving_ = false;
  mutex_.unlock();
}

std::uint64_t CallOrder::hold() {
  if (!asks_()) return 0;
  const MutexLock lock(mutex_);
  holds_.emplace(++holdsMade_, Hold{here.order == this ? here.after : calls_});
  return holdsMade_;
}

void CallOrder::runHolding(std::uint64_t hold, const std::function<void()>& complete) {
  Here outer;
  {
    const MutexLock lock(mutex_);
    Hold& own = holds_.at(hold);
    own.end = Clock::now() + patience_;
    outer = std::exchange(here, {this, own.after});
    changed_.notify_all();
  }
  complete();
  here = outer;
  const MutexLock lock(mutex_);
  holds_.erase(hold);
  changed_.notify_all();
}

void CallOrder::letGo(std::uint64_t call) {
  const MutexLock lock(mutex_);
  if (waiting_.empty() || call < waiting_.front().call) return;  // It was started.
  for (auto& [number, hold] : holds_) hold.over |= hold.after < call;
  changed_.notify_all();
}

void CallOrder::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

bool CallOrder::isHeld(std::uint64_t call) {
  if (closed_) return false;
  bool held = false;
  for (auto& [number, hold] : holds_) {
    if (hold.over || hold.after >= call) continue;
    hold.over = hold.end && Clock::now() >= *hold.end;
    if (hold.over) {
      log::warn(
          "a callback of a future has not returned for {} s: what was called after its collective "
          "goes on, and what it calls itself may come in a different order on other ranks",
          std::chrono::duration<double>(patience_).count());
    }
    held |= !hold.over;
  }
  return held;
}

void CallOrder::waitForChange() {
  std::optional<Clock::time_point> next;
  for (const auto& [number, hold] : holds_) {
    if (!hold.over && hold.end) next = std::min(next.value_or(*hold.end), *hold.end);
  }
  if (next) {
    changed_.wait_until(mutex_, *next);
  } else {
    changed_.wait(mutex_);
  }
}

}  // namespace colla::c10d
