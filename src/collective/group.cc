#include "colla/group.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/thread_annotations.h"
#include "colla/collectives.h"
#include "collective/group_core.h"

namespace colla {
namespace {

Status move(GroupCore& core, bool outgoing, ConstBuffer data, int rank, std::uint32_t tag,
            std::chrono::milliseconds timeout) {
  if (rank < 0 || rank >= core.size() || rank == core.rank()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("rank {} is not another rank of this group (0 to {}, without {})", rank,
                        core.size() - 1, core.rank())};
  }
  const auto& options = core.options();
  const int peer = options.members[rank];
  const std::uint32_t number = core.nextMessage(outgoing, peer, tag);
  const transport::Envelope envelope{
      .group = options.id | kMessageBit,
      .sequence = tag,
      .step = number,
      .call = collective::encode({.operation = collective::Operation::kMessage})};
  transport::Request request;
  if (outgoing) {
    options.transport->send(peer, envelope, data.bytes(), request);
  } else {
    auto* bytes = const_cast<std::byte*>(data.data());  // From a Buffer: see recv().
    options.transport->recv(peer, envelope, {bytes, data.bytes().size()}, request);
  }
  transport::Request* const pending = &request;
  Status status = options.transport->wait(std::span(&pending, 1), core.deadlineFor(timeout));
  // The other side goes on counting from there, so who calls again must mean the same message.
  if (status.code() == StatusCode::kTimeout &&
      (request.begun() || !core.giveBackMessage(outgoing, peer, tag, number))) {
    const char* why = !request.begun() ? "it is lost, as another call waits for the next one"
                      : outgoing       ? "some of it has left: it can't be sent again"
                                       : "some of it had come: it is lost";
    status = {status.code(), fmt::format("{}; {}", status.message(), why), status.peer()};
  }
  return status.withContext(
      fmt::format("{} {}", outgoing ? "send to" : "receive from", options.names[rank]));
}

}  // namespace

struct Handle::State {
  Mutex mutex;
  Condition changed;
  bool done COLLA_GUARDED_BY(mutex) = false;
  Status status COLLA_GUARDED_BY(mutex);
};

bool Handle::done() const {
  const MutexLock lock(state_->mutex);
  return state_->done;
}

Status Handle::wait() const {
  const MutexLock lock(state_->mutex);
  while (!state_->done) state_->changed.wait(state_->mutex);
  return state_->status;
}

Group::Group(std::unique_ptr<GroupCore> core) : core_(std::move(core)) {}
Group::~Group() { core_->close(); }

int Group::rank() const { return core_->rank(); }
int Group::size() const { return core_->size(); }

Result<std::unique_ptr<Group>> Group::subgroup(std::span<const int> ranks) {
  const auto& options = core_->options();
  GroupCore::Options wanted = options;
  wanted.members.clear();
  wanted.names.clear();
  wanted.rank = -1;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= core_->size() || std::ranges::count(ranks, rank) != 1) {
      return {
          StatusCode::kInvalidArgument,
          fmt::format("rank {} is not one of 0 to {}, or is named twice", rank, core_->size() - 1)};
    }
    if (rank == core_->rank()) wanted.rank = static_cast<int>(wanted.members.size());
    wanted.members.push_back(options.members[rank]);
    wanted.names.push_back(options.names[rank]);
  }
  if (wanted.rank < 0) {
    return {StatusCode::kInvalidArgument,
            fmt::format("rank {} is not a member of the subgroup that it asks for", core_->rank())};
  }
  if (wanted.routes != nullptr) wanted.transport = wanted.routes->between(wanted.members);
  wanted.id = core_->nextSubgroup(wanted.members);
  const auto timeout = options.timeout;
  COLLA_TRY_ASSIGN(auto core, GroupCore::create(std::move(wanted), Deadline::after(timeout)));
  return std::make_unique<Group>(std::move(core));
}

Handle Group::async(std::function<Status(Group&)> operation) {
  auto state = std::make_shared<Handle::State>();
  core_->enqueue([this, operation = std::move(operation)] { return operation(*this); },
                 [state](Status status) {
                   {
                     const MutexLock lock(state->mutex);
                     state->status = std::move(status);
                     state->done = true;
                   }
                   state->changed.notify_all();
                 });
  return Handle(std::move(state));
}

Status send(Group& group, ConstBuffer data, int to, std::uint32_t tag,
            const CollectiveOptions& options) {
  return move(group.core(), /*outgoing=*/true, data, to, tag, options.timeout);
}

Status recv(Group& group, Buffer data, int from, std::uint32_t tag,
            const CollectiveOptions& options) {
  return move(group.core(), /*outgoing=*/false, data, from, tag, options.timeout);
}

}  // namespace colla
