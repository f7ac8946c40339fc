#include "c10d/process_group.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/log.h"
#include "c10d/meet.h"
#include "collective/group_core.h"

namespace colla::c10d {
namespace {

// The collectives have the job's own group; messages must not mix with theirs.
constexpr std::uint32_t kMailboxGroup = kMessageBit | 2;

// What is under way ends at once after an abort, and so does a callback that waits for it.
constexpr std::chrono::milliseconds kAfterAbort{1000};

const std::vector<std::string>& namesOf(Job& job) { return job.world().core().options().names; }

}  // namespace

ProcessGroup::ProcessGroup(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size,
                           std::chrono::milliseconds timeout, CallOrder::Asks asks)
    : Backend(rank, size),
      options_(c10::make_intrusive<Options>(kName, timeout)),
      order_(std::make_shared<CallOrder>(callbacks_, asks)),
      job_(meet(*store, rank, size, timeout)) {
  order_->setTimeout(timeout);
  if (size > 1) {
    mailbox_ = std::make_shared<Mailbox>(*job_->transport(), kMailboxGroup, namesOf(*job_));
  }
  init();
}

ProcessGroup::~ProcessGroup() { ProcessGroup::shutdown(); }

void ProcessGroup::abort() {
  failed_ = true;
  order_->close();
  if (job_ != nullptr) {
    job_->world().core().abort(
        {StatusCode::kCancelled, fmt::format("rank {} aborted the process group", rank_)});
  }
  if (mailbox_ != nullptr) mailbox_->close();
  mailbox_.reset();
}

void ProcessGroup::leave(std::chrono::milliseconds patience) {
  if (mailbox_ != nullptr) mailbox_->close();
  mailbox_.reset();
  if (job_ == nullptr) return;
  if (!becomesIdle(patience)) {
    abort();  // So callbacks that wait for this group go on.
    if (!becomesIdle(kAfterAbort)) {
      log::warn("a callback of a future did not return before its process group ended");
      static_cast<void>(job_.release());  // The callback may still call into it.
      return;
    }
  }
  job_.reset();
}

bool ProcessGroup::becomesIdle(std::chrono::milliseconds patience) const {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24);
  const auto end = std::chrono::steady_clock::now() + std::min(patience, kLongest);
  while (underWay_ > 0 || callbacks_->pending() > 0) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

::c10d::ErrorType ProcessGroup::getError() {
  return failed_ ? ::c10d::ErrorType::COMM_ERROR : ::c10d::ErrorType::SUCCESS;
}

bool ProcessGroup::supportsTensorAlloc(c10::DeviceIndex /*device*/) {
  return job_ != nullptr && job_->transport() != nullptr &&
         job_->transport()->sharedMemory() != nullptr;
}

// DistributedDataParallel means the real view where it asks for a complex tensor: of memory that is
// not the backend's it makes that view itself.
at::Tensor ProcessGroup::allocateTensor(long size, at::TensorOptions options) {
  TORCH_CHECK_VALUE(size >= 0, "colla: a tensor can't have ", size, " elements");
  TORCH_CHECK_VALUE(options.device().is_cpu(), "colla: there is no shared memory on ",
                    options.device());
  if (const auto type = options.dtype().toScalarType(); c10::isComplexType(type)) {
    size *= 2;
    options = options.dtype(c10::toRealValueType(type));
  }
  auto bucket = job().allocate(static_cast<std::size_t>(size) * options.dtype().itemsize());
  if (!bucket.ok()) return at::empty({size}, options);  // Any memory will do, if not as fast.
  const auto keep = std::make_shared<Bucket>(*std::move(bucket));
  return at::from_blob(
      keep->bytes().data(), {size}, [keep](void*) {}, options);
}

c10::intrusive_ptr<::c10d::Backend> ProcessGroup::split(
    const c10::intrusive_ptr<::c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) {
  const auto it = std::ranges::find(ranks, rank_);
  if (it == ranks.end()) return nullptr;
  return makeGroup(store, static_cast<int>(it - ranks.begin()), static_cast<int>(ranks.size()),
                   options ? options->timeout : options_->timeout);
}

c10::intrusive_ptr<::c10d::Backend> ProcessGroup::merge(
    const c10::intrusive_ptr<::c10d::Store>& store, const c10::intrusive_ptr<Options>& options,
    const int& rank, const int& size) {
  return makeGroup(store, rank, size, options ? options->timeout : options_->timeout);
}

Job& ProcessGroup::job() {
  TORCH_CHECK_WITH(DistBackendError, job_ != nullptr,
                   "colla: this process group has been shut down");
  return *job_;
}

Mailbox& ProcessGroup::mailbox() {
  job();
  TORCH_CHECK(mailbox_ != nullptr, "colla: there is nobody to send to: this process group ",
              size_ == 1 ? "has one rank" : "was aborted");
  return *mailbox_;
}

std::string ProcessGroup::nameOf(int rank) const {
  return namesOf(*job_)[static_cast<std::size_t>(rank)];
}

WorkPtr ProcessGroup::run(Title title, const std::optional<Tensors>& inputs, Work::Outputs outputs,
                          bool async, Operation operation) {
  Group& group = job().world();
  auto work =
      c10::make_intrusive<Work>(rank_, title, inputs, std::move(outputs), ++sequence_, order_);
  const auto attempt = [this, name = title.name](const Operation& what,
                                                 Group& on) -> std::exception_ptr {
    // Writing a result into a parameter is nothing that autograd should see or forbid.
    const at::AutoDispatchBelowADInplaceOrView belowAutograd;
    try {
      const Status status = what(on);
      if (status.ok()) return nullptr;
      if (status.code() != StatusCode::kInvalidArgument) failed_ = true;
      return asException(status, name, rank_);
    } catch (...) {
      return std::current_exception();
    }
  };
  if (!async) {
    order_->await();
    work->complete(attempt(operation, group), *callbacks_);
    return work;
  }
  ++underWay_;
  work->setCall(order_->pass([this, &group, work, attempt, operation = std::move(operation),
                              caller = at::ThreadLocalState()] {
    group.async([this, work, attempt, operation, caller](Group& on) -> Status {
      const at::ThreadLocalStateGuard asCaller(caller);
      work->complete(attempt(operation, on), *callbacks_);
      --underWay_;
      return {};
    });
  }));
  return work;
}

}  // namespace colla::c10d
