// Messages between two ranks, and the barrier that says who is missing, which is made of them.
#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>

#include "c10d/arguments.h"
#include "c10d/process_group.h"
#include "c10d/tensors.h"
#include "colla/buffer.h"

namespace colla::c10d {
namespace {

using ::c10d::OpType;

// Torch's tags are positive: those of barriers are apart from them.
constexpr std::uint32_t kBarrierTags = 1U << 31;

const at::Tensor& checkMessage(const char* operation, const Tensors& tensors, int tag) {
  ::c10d::assertSingleElement(refusing(operation), tensors);
  TORCH_CHECK(!tensors[0].is_sparse(), "colla: ", operation, ": input tensor has to be dense");
  checkPlain(operation, tensors);
  TORCH_CHECK(tag >= 0, "colla: ", operation, ": Tag must be nonnegative");
  return tensors[0];
}

}  // namespace

WorkPtr ProcessGroup::post(Title title, const at::Tensor& tensor, bool outgoing, int peer,
                           std::uint32_t tag, std::chrono::milliseconds timeout) {
  TORCH_CHECK(peer >= (outgoing ? 0 : Mailbox::kAnySource) && peer < size_, title.name, ": rank ",
              peer, " is not one of the group's ranks 0 to ", size_ - 1);
  Mailbox& box = mailbox();
  const std::string name = peer == Mailbox::kAnySource ? "anybody" : nameOf(peer);
  auto work = c10::make_intrusive<MessageWork>(
      rank_, title, tensor, ++messages_, timeout,
      fmt::format("{} {} with tag {}", outgoing ? "a send to" : "a recv from", name, tag));
  const at::Tensor whole = packed(tensor);
  const auto done = [work, whole, tensor, outgoing, title, rank = rank_, callbacks = callbacks_](
                        const Status& status, int source) {
    std::exception_ptr error;
    if (!status.ok()) {
      error = asException(status, title.name, rank);
    } else if (!outgoing) {
      try {
        const at::AutoDispatchBelowADInplaceOrView belowAutograd;
        unpack(whole, tensor);
      } catch (...) {
        error = std::current_exception();
      }
    }
    work->setSource(source);
    work->complete(error, *callbacks);
  };
  const auto bytes = memoryOf(whole).bytes();
  const Mailbox::Ticket ticket =
      outgoing ? box.send(peer, tag, bytes, done) : box.recv(peer, tag, bytes, done);
  work->setGiveUp([weak = std::weak_ptr(mailbox_), ticket](const Status& why) {
    if (const auto alive = weak.lock()) alive->giveUp(ticket, why);
  });
  return work;
}

WorkPtr ProcessGroup::send(Tensors& tensors, int to, int tag) {
  return post({OpType::SEND, "colla:send"}, checkMessage("send", tensors, tag), true, to,
              static_cast<std::uint32_t>(tag), options_->timeout);
}

WorkPtr ProcessGroup::recv(Tensors& tensors, int from, int tag) {
  TORCH_CHECK(from >= 0, "colla: recv: rank ", from, " is not one of the group's");
  return post({OpType::RECV, "colla:recv"}, checkMessage("recv", tensors, tag), false, from,
              static_cast<std::uint32_t>(tag), options_->timeout);
}

WorkPtr ProcessGroup::recvAnysource(Tensors& tensors, int tag) {
  return post({OpType::RECVANYSOURCE, "colla:recvAnySource"},
              checkMessage("recvAnysource", tensors, tag), false, Mailbox::kAnySource,
              static_cast<std::uint32_t>(tag), options_->timeout);
}

// Everybody tells rank 0 that it is here, and rank 0, once it has heard of all or of too few, tells
// them which. Only rank 0 counts the barrier's own time, so that it can say who is missing before
// others give up.
void ProcessGroup::monitoredBarrier(const ::c10d::BarrierOptions& options, bool waitAllRanks) {
  const std::uint32_t tag = kBarrierTags | (++barriers_ & (kBarrierTags - 1));
  const auto timeout = timeoutOr(options.timeout);
  if (size_ == 1) return;
  const auto message = [&](bool outgoing, int peer, const at::Tensor& verdict) {
    return post({outgoing ? OpType::SEND : OpType::RECV, "colla:monitored_barrier"}, verdict,
                outgoing, peer, tag, options_->timeout);
  };
  const auto told = [](bool passed) { return at::full({1}, passed ? 1 : 0, at::kByte); };
  if (rank_ != 0) {
    std::string why = "rank 0 gave it up";
    const at::Tensor verdict = told(false);
    try {
      message(true, 0, told(true))->wait(kNoTimeout);
      message(false, 0, verdict)->wait(kNoTimeout);
    } catch (const std::exception& e) {
      why = e.what();
    }
    TORCH_CHECK_WITH(DistBackendError, verdict.item<std::uint8_t>() == 1, "Rank ", rank_,
                     " successfully reached monitoredBarrier, but received errors while waiting "
                     "for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n"
                     " Original exception: \n",
                     why);
    return;
  }

  std::vector<WorkPtr> arrivals;
  for (int rank = 1; rank < size_; ++rank) arrivals.push_back(message(false, rank, told(false)));
  const auto end = std::chrono::steady_clock::now() + timeout;
  std::string failure;
  std::vector<int> missing;
  for (int rank = 1; rank < size_ && (waitAllRanks || failure.empty()); ++rank) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left <= std::chrono::milliseconds(0) && !waitAllRanks) {
      failure = fmt::format("Rank 0 timed out in monitoredBarrier after {} ms, before rank {}",
                            timeout.count(), rank);
      break;
    }
    try {
      arrivals[static_cast<std::size_t>(rank - 1)]->wait(
          std::max(left, std::chrono::milliseconds(1)));
    } catch (const std::exception& e) {
      missing.push_back(rank);
      failure = fmt::format(
          "Rank{} {} failed to pass monitoredBarrier in {} ms\n Original exception: \n{}",
          missing.size() > 1 ? "s" : "", fmt::join(missing, ", "), timeout.count(), e.what());
    }
  }
  std::vector<WorkPtr> releases;
  for (int rank = 1; rank < size_; ++rank) {
    releases.push_back(message(true, rank, told(failure.empty())));
  }
  TORCH_CHECK_WITH(DistBackendError, failure.empty(), "[Rank 0]: ", failure);
  for (const WorkPtr& release : releases) release->wait(kNoTimeout);
}

}  // namespace colla::c10d
