#include "transport/ucx/backend.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "transport/ucx/devices.h"

namespace colla::transport::ucx {
namespace {

using namespace std::chrono_literals;

constexpr int kRoundsAtOnce = 16;      // Of UCX's progress, before the lock is free for a moment.
constexpr unsigned kLooksAtDoor = 16;  // One look in so many goes to the door as well.
constexpr auto kEndingPause = 5ms;     // Between looks at a peer that leaves.

}  // namespace

Result<std::unique_ptr<UcxBackend>> UcxBackend::create(const Options& options,
                                                       std::unique_ptr<Backend> door) {
  std::unique_ptr<UcxBackend> made(new UcxBackend(options, std::move(door)));
  const std::string& address = options.peers[static_cast<std::size_t>(options.self)].address;
  COLLA_TRY_ASSIGN(made->worker_, Worker::create(devicesFor(address, options.rdmaAlone),
                                                 [door = made->door_.get()] { door->wake(); }));
  return made;
}

void UcxBackend::poll(std::vector<Arrival>& arrivals) {
  door_->poll(atDoor_);
  for (Arrival& arrival : atDoor_) {
    if (arrival.stream == nullptr) {
      arrivals.push_back(std::move(arrival));
      continue;
    }
    const MutexLock lock(worker_->mutex());
    newcomers_.emplace_back(arrival.peer, std::move(arrival.stream), worker_, options_);
  }
  atDoor_.clear();
  std::vector<Newcomer> gone;  // Their streams take the mutex when they end: after the lock.
  const MutexLock lock(worker_->mutex());
  if (newcomers_.empty()) return;
  (void)worker_->progress();
  std::erase_if(newcomers_, [&](Newcomer& newcomer) {
    const auto step = newcomer.step();
    if (step.ok() && !*step) return false;
    if (step.ok()) {
      arrivals.push_back({newcomer.peer(), newcomer.takeStream(), {}});
    } else {
      const std::string& name = options_.peers[static_cast<std::size_t>(newcomer.peer())].name;
      arrivals.push_back(noStream(newcomer.peer(), name, step.status()));
    }
    gone.push_back(std::move(newcomer));
    return true;
  });
}

void UcxBackend::sleep(std::span<Watch> watches, Deadline until) {
  const Deadline spin = Deadline::after(options_.spin.here()).earlier(until);
  do {
    if (look(watches) || woken_) {
      if (++looks_ % kLooksAtDoor == 0) sleepAtDoor(watches, Deadline::at(TimePoint::min()));
      woken_ = false;
      return;
    }
    sched_yield();
  } while (!spin.expired());
  sleepAtDoor(watches, until);
  woken_ = false;
}

// Moves what UCX can move; whether there is news.
bool UcxBackend::look(std::span<Watch> watches) {
  const MutexLock lock(worker_->mutex());
  for (int round = 0; round < kRoundsAtOnce && worker_->progress(); ++round) {
  }
  return news(watches);
}

bool UcxBackend::news(std::span<Watch> watches) {
  bool any = std::ranges::any_of(newcomers_, &Newcomer::hasNews);
  for (Watch& watch : watches) {
    auto* const stream = dynamic_cast<UcxStream*>(watch.stream);
    if (stream == nullptr) continue;  // To this process itself.
    watch.ready = (watch.read && stream->readable()) || (watch.write && stream->writable());
    any |= watch.ready;
  }
  return any;
}

void UcxBackend::sleepAtDoor(std::span<Watch> watches, Deadline until) {
  descriptors_.clear();
  lifelines_.clear();
  writes_.clear();
  const auto add = [&](int fd, UcxStream* lifeline, bool write = false) {
    if (fd < 0) return;
    descriptors_.emplace_back(fd);
    lifelines_.push_back(lifeline);
    writes_.push_back(write);
  };
  {
    const MutexLock lock(worker_->mutex());
    add(worker_->fd(), nullptr);
    for (const Newcomer& newcomer : newcomers_) add(newcomer.fd(), nullptr, newcomer.wantsWrite());
    for (const Watch& watch : watches) {
      auto* const stream = dynamic_cast<UcxStream*>(watch.stream);
      if (stream == nullptr) continue;
      add(stream->lifelineFd(), stream);
      if (stream->ending()) until = until.earlier(Deadline::after(kEndingPause));
    }
    // Another thread may have found news since the last look, or UCX may have some.
    if (!until.expired() && (news(watches) || !worker_->arm())) {
      until = Deadline::at(TimePoint::min());
    }
    worker_->setAsleep(true);
  }
  doorWatches_.clear();
  for (std::size_t i = 0; i < descriptors_.size(); ++i) {
    doorWatches_.push_back({&descriptors_[i], /*read=*/true, writes_[i], /*ready=*/false});
  }
  door_->sleep(doorWatches_, until);
  {
    const MutexLock lock(worker_->mutex());
    worker_->setAsleep(false);
    for (std::size_t i = 0; i < doorWatches_.size(); ++i) {
      if (doorWatches_[i].ready && lifelines_[i] != nullptr) lifelines_[i]->readLifeline();
    }
  }
  (void)look(watches);
}

void UcxBackend::wake() {
  woken_ = true;
  door_->wake();
}

}  // namespace colla::transport::ucx
