// What became of one operation of a process group, as torch wants to see it.
//
// Thread safety: every function may be called from any thread. complete() is called once.
#pragma once

#include <ATen/ThreadLocalState.h>

#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

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

  // The profiler's record of the operation begins here.
  Work(int rank, Title title, const std::optional<std::vector<at::Tensor>>& inputs, Outputs outputs,
       std::uint64_t sequence);

  // Ends the operation: futures first, so that what hangs on them has run when wait() returns.
  void complete(std::exception_ptr error);

  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
  std::uint64_t getSequencenumber() const override { return sequence_; }

  const char* name() const { return title_.name; }

 private:
  void fulfil(c10::ivalue::Future& future) const;

  const Title title_;
  const Outputs outputs_;
  const std::uint64_t sequence_;
  // Made when somebody asks: most callers wait, and futures are not free. Guarded by mutex_.
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  c10::intrusive_ptr<c10::ivalue::Future> futureResult_;
  bool done_ = false;
  std::exception_ptr error_;
};

// A message between two ranks, which may be waited for by less than its own time, and given up.
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
