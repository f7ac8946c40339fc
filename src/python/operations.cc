#include "python/operations.h"

namespace colla::python {

std::pair<Operations::Handle, PendingOperation*> Operations::add(PendingOperation operation) {
  const MutexLock lock(mutex_);
  auto& place = operations_[++last_];
  place = std::make_unique<PendingOperation>(std::move(operation));
  return {last_, place.get()};
}

void Operations::endPart(PendingOperation* operation, const Status& status,
                         std::span<const std::int64_t> numbers) {
  const MutexLock lock(mutex_);
  if (operation->status.ok()) operation->status = status;
  operation->numbers.assign(numbers.begin(), numbers.end());
  if (--operation->pending > 0) return;
  operation->end = std::chrono::steady_clock::now();
  ended_.notify_all();
}

std::optional<bool> Operations::ended(Handle handle) {
  const MutexLock lock(mutex_);
  const auto found = operations_.find(handle);
  if (found == operations_.end()) return std::nullopt;
  return found->second->pending == 0;
}

std::optional<TimePoint> Operations::endOf(Handle handle) {
  const MutexLock lock(mutex_);
  const auto found = operations_.find(handle);
  if (found == operations_.end() || found->second->pending > 0) return std::nullopt;
  return found->second->end;
}

bool Operations::isPending(Handle handle) const {
  const auto found = operations_.find(handle);
  return found != operations_.end() && found->second->pending > 0;
}

std::optional<bool> Operations::wait(Handle handle, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const MutexLock lock(mutex_);
  while (isPending(handle) && ended_.wait_until(mutex_, deadline) == std::cv_status::no_timeout) {
  }
  // A different thread may have waited for it, too, and taken it out.
  if (!operations_.contains(handle)) return std::nullopt;
  return !isPending(handle);
}

std::unique_ptr<PendingOperation> Operations::remove(Handle handle) {
  const MutexLock lock(mutex_);
  auto node = operations_.extract(handle);
  return node.empty() ? nullptr : std::move(node.mapped());
}

}  // namespace colla::python
