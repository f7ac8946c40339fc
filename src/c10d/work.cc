#include "c10d/work.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/exception.h>

#include <algorithm>

namespace colla::c10d {
namespace {

using c10::ivalue::Future;

c10::TypePtr typeOf(const Work::Outputs& outputs) {
  const auto tensors = c10::ListType::create(c10::TensorType::get());
  return outputs.size() > 1 ? c10::TypePtr(c10::ListType::create(tensors)) : c10::TypePtr(tensors);
}

template <typename Error>
std::exception_ptr make(const std::string& text) {
  return std::make_exception_ptr(Error({__func__, __FILE__, __LINE__}, text));
}

}  // namespace

std::exception_ptr asException(const Status& status, const char* name, int rank) {
  if (status.code() == StatusCode::kTimeout) {
    return make<c10::DistBackendError>(
        fmt::format("{} on rank {}: Timed out ({})", name, rank, status.message()));
  }
  const std::string text = fmt::format("{} on rank {}: {}", name, rank, toString(status));
  switch (status.code()) {
    case StatusCode::kPeerLost:
      return make<c10::DistNetworkError>(text);
    case StatusCode::kInvalidArgument:
      return make<c10::Error>(text);
    default:
      return make<c10::DistBackendError>(text);
  }
}

Work::Work(int rank, Title title, const std::optional<std::vector<at::Tensor>>& inputs,
           Outputs outputs, std::uint64_t sequence, std::shared_ptr<CallOrder> order)
    : ::c10d::Work(rank, title.type, title.name, inputs),
      title_(title),
      outputs_(std::move(outputs)),
      sequence_(sequence),
      order_(std::move(order)) {}

// A future that was not asked for until here has no callbacks, and getFuture() fulfils it. Any
// other may have some: torch does not tell.
void Work::complete(std::exception_ptr error, Callbacks& callbacks) {
  c10::intrusive_ptr<Future> future;
  c10::intrusive_ptr<Future> futureResult;
  std::uint64_t hold = 0;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
    error_ = error;
    future = future_;
    futureResult = futureResult_;
    hold = hold_;
  }
  cv_.notify_all();
  if (!future && !futureResult) return finish(std::move(error));
  callbacks.run([self = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this), future,
                 futureResult, hold, state = at::ThreadLocalState()] {
    const at::ThreadLocalStateGuard asCaller(state);
    const auto runCallbacks = [&] {
      if (future) self->fulfil(*future);
      if (futureResult) self->fulfilResult(*futureResult);
    };
    if (hold == 0) {
      runCallbacks();
    } else {
      self->order_->runHolding(hold, runCallbacks);
    }
    self->finish(self->error_);
  });
}

bool Work::wait(std::chrono::milliseconds timeout) {
  if (!Callbacks::onThread()) return ::c10d::Work::wait(timeout);
  if (order_) order_->letGo(call_);
  std::unique_lock lock(mutex_);
  if (timeout == kNoTimeout) {
    cv_.wait(lock, [this] { return done_; });
  } else {
    TORCH_CHECK(cv_.wait_for(lock, timeout, [this] { return done_; }), name(), ": not done after ",
                timeout.count(), " ms");
  }
  if (error_) std::rethrow_exception(error_);
  return true;
}

void Work::fulfil(Future& future) const {
  if (error_) {
    future.setError(error_);
  } else if (outputs_.size() > 1) {
    future.markCompleted(c10::IValue(outputs_));
  } else {
    future.markCompleted(c10::IValue(outputs_.empty() ? std::vector<at::Tensor>() : outputs_[0]));
  }
}

void Work::fulfilResult(Future& future) const {
  future.markCompleted(c10::IValue(static_cast<std::int64_t>(
      error_ ? ::c10d::WorkResult::COMM_ERROR : ::c10d::WorkResult::SUCCESS)));
}

std::vector<at::Tensor> Work::result() {
  TORCH_CHECK(isCompleted(), name(), ": the operation has no result yet: wait for it first");
  TORCH_CHECK(outputs_.size() <= 1, name(),
              ": the operation has several lists of results: use get_future()");
  return outputs_.empty() ? std::vector<at::Tensor>() : outputs_[0];
}

c10::intrusive_ptr<Future> Work::getFuture() {
  const std::lock_guard lock(mutex_);
  if (!future_) {
    future_ = c10::make_intrusive<Future>(typeOf(outputs_));
    if (done_) fulfil(*future_);
  }
  if (order_ && !done_ && hold_ == 0) hold_ = order_->hold();
  return future_;
}

c10::intrusive_ptr<Future> Work::getFutureResult() {
  const std::lock_guard lock(mutex_);
  if (!futureResult_) {
    futureResult_ = c10::make_intrusive<Future>(c10::IntType::get());
    if (done_) fulfilResult(*futureResult_);
  }
  return futureResult_;
}

MessageWork::MessageWork(int rank, Title title, const at::Tensor& tensor, std::uint64_t sequence,
                         std::chrono::milliseconds timeout, std::string peer)
    : Work(rank, title, std::vector<at::Tensor>{tensor}, {{tensor}}, sequence),
      timeout_(timeout),
      peer_(std::move(peer)) {}

bool MessageWork::wait(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  const auto limit = std::min(timeout == kNoTimeout ? timeout_ : timeout, kLongest);
  std::unique_lock lock(mutex_);
  const bool late = !cv_.wait_for(lock, limit, [this] { return isOver(); });
  if (late && giveUp_) {
    lock.unlock();
    giveUp_({StatusCode::kTimeout, fmt::format("waited {} ms for {}", limit.count(), peer_)});
    lock.lock();
  }
  cv_.wait(lock, [this] { return done_; });
  if (error_) std::rethrow_exception(error_);
  return true;
}

void MessageWork::abort() {
  if (giveUp_) giveUp_({StatusCode::kCancelled, "the operation was aborted"});
}

}  // namespace colla::c10d
