// The backend "colla" of torch.distributed: Colla's collectives behind torch's interface.
//
// Every process group is a job of its own (c10d/meet.h). A call that torch marks as blocking is
// carried out on the caller's thread, others on the group's progress thread, all in the order in
// which they were called. Messages between two ranks wait for neither (collective/mailbox.h). The
// program's own functions, attached to futures, run on neither (c10d/callbacks.h), and the
// collectives that these call have a place in that order (c10d/call_order.h).
//
// What Gloo accepts is accepted with the same meaning, and what it refuses in words that name the
// same thing; beyond it there are all_to_all of lists and messages of tensors with gaps.
//
// Thread safety: as for every process group, calls may come from any thread, but all ranks must
// make those of collectives in the same order.
//
// After a failed collective (a peer that is lost, a timeout, calls that differ) the group is
// broken: every later collective raises the first reason. Messages go on where they can.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "c10d/call_order.h"
#include "c10d/callbacks.h"
#include "c10d/work.h"
#include "colla/job.h"
#include "collective/mailbox.h"

namespace colla::c10d {

using collective::Mailbox;
using WorkPtr = c10::intrusive_ptr<::c10d::Work>;
using Tensors = std::vector<at::Tensor>;

class ProcessGroup : public ::c10d::Backend {
 public:
  static constexpr const char* kName = "colla";

  // Meets the other ranks at `store`. Throws when that fails.
  // `asks`: see CallOrder.
  ProcessGroup(
      const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size,
      std::chrono::milliseconds timeout, CallOrder::Asks asks = [] { return true; });
  ~ProcessGroup() override;

  const std::string getBackendName() const override { return kName; }
  // A copy: torch writes another group's timeout into it when it splits this one.
  c10::intrusive_ptr<Options> getBackendOptions() override {
    return c10::make_intrusive<Options>(*options_);
  }
  void setTimeout(std::chrono::milliseconds timeout) override {
    options_->timeout = timeout;
    order_->setTimeout(timeout);
  }
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<::c10d::Store>& store,
                                    const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;
  c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<::c10d::Store>& store,
                                    const c10::intrusive_ptr<Options>& options, const int& rank,
                                    const int& size) override;
  // DistributedDataParallel's buckets and others' buffers can lie where ranks reduce them in place.
  // A complex tensor comes as its real view, flat.
  bool supportsTensorAlloc(c10::DeviceIndex device) override;
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  // How many collectives there have been, on every rank alike.
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  ::c10d::ErrorType getError() override;
  // Ends what is under way; nothing can be called afterwards.
  void abort() override;
  // Waits for the collectives that are under way, and for callbacks, and leaves the job. What is
  // not done after the group's timeout is given up.
  void shutdown() override { leave(options_->timeout); }
  // The same at the end of a program, which nobody may hold up for longer than `patience`.
  void leave(std::chrono::milliseconds patience);

  // moves.cc
  WorkPtr broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const ::c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const ::c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const ::c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const ::c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const ::c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const ::c10d::ScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input,
                        std::vector<std::int64_t>& outputSplits,
                        std::vector<std::int64_t>& inputSplits,
                        const ::c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const ::c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const ::c10d::BarrierOptions& options) override;

  // reductions.cc
  WorkPtr allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const ::c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const ::c10d::ReduceOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const ::c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const ::c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const ::c10d::ReduceScatterOptions& options) override;

  // sparse.cc
  WorkPtr allreduce_sparse(Tensors& tensors, const ::c10d::AllreduceOptions& options) override;

  // messages.cc
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  void monitoredBarrier(const ::c10d::BarrierOptions& options, bool waitAllRanks) override;

 private:
  using Operation = std::function<Status(Group& group)>;

  // Another group, of the same class as this one.
  virtual c10::intrusive_ptr<Backend> makeGroup(const c10::intrusive_ptr<::c10d::Store>& store,
                                                int rank, int size,
                                                std::chrono::milliseconds timeout) const {
    return c10::make_intrusive<ProcessGroup>(store, rank, size, timeout);
  }

  // One collective: `operation` is carried out now, or behind what is under way if `async`.
  WorkPtr run(Title title, const std::optional<Tensors>& inputs, Work::Outputs outputs, bool async,
              Operation operation);
  // One message; `peer` may be Mailbox::kAnySource where it comes in.
  WorkPtr post(Title title, const at::Tensor& tensor, bool outgoing, int peer, std::uint32_t tag,
               std::chrono::milliseconds timeout);
  std::chrono::milliseconds timeoutOr(std::chrono::milliseconds asked) const {
    return asked == ::c10d::kUnsetTimeout ? options_->timeout : asked;
  }
  // No collective is under way and no callback runs, or `patience` is over (false).
  bool becomesIdle(std::chrono::milliseconds patience) const;
  Job& job();
  Mailbox& mailbox();
  // "rank 2 on host a"
  std::string nameOf(int rank) const;

  const c10::intrusive_ptr<Options> options_;
  std::atomic<std::uint64_t> sequence_ = 0;
  std::atomic<std::uint64_t> messages_ = 0;
  std::atomic<std::uint32_t> barriers_ = 0;
  std::atomic<int> underWay_ = 0;  // On the progress thread, or waiting for it or in `order_`.
  std::atomic<bool> failed_ = false;
  const std::shared_ptr<Callbacks> callbacks_ = std::make_shared<Callbacks>();
  const std::shared_ptr<CallOrder> order_;
  // Both null after shutdown(). The mailbox goes first.
  std::unique_ptr<Job> job_;
  std::shared_ptr<Mailbox> mailbox_;
};

}  // namespace colla::c10d
