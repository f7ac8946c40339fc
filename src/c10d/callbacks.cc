#include "c10d/callbacks.h"

#include <deque>
#include <thread>
#include <utility>

#include "base/thread_annotations.h"

namespace colla::c10d {

struct Callbacks::State {
  Mutex mutex;
  Condition changed;
  std::deque<std::function<void()>> queue COLLA_GUARDED_BY(mutex);
  std::size_t idle COLLA_GUARDED_BY(mutex) = 0;  // Threads that wait for the queue.
  int pending COLLA_GUARDED_BY(mutex) = 0;       // In the queue or running.
  bool closing COLLA_GUARDED_BY(mutex) = false;
};

namespace {

// The Callbacks whose thread this is.
thread_local const void* servedHere = nullptr;

}  // namespace

Callbacks::Callbacks() : state_(std::make_shared<State>()) {}

Callbacks::~Callbacks() {
  {
    const MutexLock lock(state_->mutex);
    state_->closing = true;
  }
  state_->changed.notify_all();
}

void Callbacks::run(std::function<void()> callback) {
  bool lacksThread = false;
  {
    const MutexLock lock(state_->mutex);
    state_->queue.push_back(std::move(callback));
    ++state_->pending;
    lacksThread = state_->idle < state_->queue.size();
  }
  if (lacksThread) {
    std::thread([state = state_] { serve(*state); }).detach();
  } else {
    state_->changed.notify_one();
  }
}

int Callbacks::pending() const {
  const MutexLock lock(state_->mutex);
  return state_->pending - (servedHere == state_.get() ? 1 : 0);
}

bool Callbacks::onThread() { return servedHere != nullptr; }

void Callbacks::serve(State& state) {
  servedHere = &state;
  state.mutex.lock();
  while (true) {
    if (!state.queue.empty()) {
      std::function<void()> callback = std::move(state.queue.front());
      state.queue.pop_front();
      state.mutex.unlock();
      callback();
      callback = nullptr;  // Frees what it held, which may be the program's, without the lock.
      state.mutex.lock();
      --state.pending;
    } else if (!state.closing && state.idle == 0) {
      ++state.idle;
      state.changed.wait(state.mutex);
      --state.idle;
    } else {
      break;
    }
  }
  state.mutex.unlock();
}

}  // namespace colla::c10d
