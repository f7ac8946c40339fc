// What became of one operation of a process group, as torch wants to see it.
//
// Thread safety: every function may be called from any thread. complete() is called once.
#pragma once

#include <ATen/ThreadLocalState.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "c10d/call_order.h"
#include "c10d/callbacks.h"
#include "colla/status.h"

namespace colla::c10d {

// What an operation is called, in torch's terms.
struct Title {
  ::c10d::OpType type;
  const char* name;  // As the profiler shows it: "colla:all_reduce".
};

// The exception that Python sees: DistNetworkError for a peer that is gone, RuntimeError for wrong
// arguments, DistBackendError for everything else. `name` is the operation's.
std::exception_ptr asException(const Status& status, const char* name, int rank);

class Work : public ::c10d::Work {
 public:
  using Outputs = std::vector<std::vector<at::Tensor>>;

  // The profiler's record of the operation begins here. A message has no place in an order.
  Work(int rank, Title title, const std::optional<std::vector<at::Tensor>>& inputs, Outputs outputs,
       std::uint64_t sequence, std::shared_ptr<CallOrder> order = nullptr);
  // What CallOrder::pass() returned.
  void setCall(std::uint64_t call) { call_ = call; }

  // Ends the operation. What a program has attached to its futures runs on a thread of `callbacks`,
  // and wait() returns after that, as with Gloo: what the callbacks do is done by then.
  void complete(std::exception_ptr error, Callbacks& callbacks);

  // In a callback it waits for the operation alone, not for the operation's callbacks: the one that
  // waits may be among them.
  bool wait(std::chrono::milliseconds timeout) override;

  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
  std::uint64_t getSequencenumber() const override { return sequence_; }

  const char* name() const { return title_.name; }

 protected:
  // There is nothing to wait for any more, on a thread of the program or in a callback.
  bool isOver() const { return completed_ || (done_ && Callbacks::onThread()); }

  // The operation has ended, but callbacks may still run. Guarded by mutex_.
  bool done_ = false;
  std::exception_ptr error_;

 private:
  void fulfil(c10::ivalue::Future& future) const;
  void fulfilResult(c10::ivalue::Future& future) const;

  const Title title_;
  const Outputs outputs_;
  const std::uint64_t sequence_;
  const std::shared_ptr<CallOrder> order_;
  std::atomic<std::uint64_t> call_ = 0;
  std::uint64_t hold_ = 0;  // Of `order_`. Guarded by mutex_.
  // Made when somebody asks: most callers wait, and futures are not free. Guarded by mutex_.
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  c10::intrusive_ptr<c10::ivalue::Future> futureResult_;
};

// A message between two ranks, which may be waited for by less than its own time, and given up.
// wait() waits no longer than that for its callbacks, either.
class MessageWork final : public Work {
 public:
  // `giveUp` ends the message early with the given reason, and so calls complete() unless that
  // has been done; `timeout` is how long wait() waits unless told otherwise.
  using GiveUp = std::function<void(Status why)>;

  MessageWork(int rank, Title title, const at::Tensor& tensor, std::uint64_t sequence,
              std::chrono::milliseconds timeout, std::string peer);
  void setGiveUp(GiveUp giveUp) { giveUp_ = std::move(giveUp); }
  void setSource(int source) { source_ = source; }

  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;
  int sourceRank() const override { return source_; }

 private:
  const std::chrono::milliseconds timeout_;
  const std::string peer_;  // In words.
  GiveUp giveUp_;
  std::atomic<int> source_{-1};
};

}  // namespace colla::c10d
