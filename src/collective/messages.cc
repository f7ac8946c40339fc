#include "collective/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "collective/reduction.h"

namespace colla::collective {
namespace {

using namespace std::chrono_literals;

// How long after a deadline a rank still listens for one that knows better who is to blame: the
// peers it waited for may themselves have waited for somebody else. Who waited for a single peer
// knows best, and speaks first.
constexpr auto kSingleGrace = 100ms;
constexpr auto kManyGrace = 400ms;

}  // namespace

transport::Envelope Messages::envelope(std::uint32_t step) const {
  return {.group = turn_.group.options().id,
          .sequence = static_cast<std::uint32_t>(turn_.sequence),
          .step = step,
          .call = turn_.call};
}

Messages::~Messages() {
  if (pending_.empty()) return;
  static_cast<void>(turn_.group.options().transport->wait(pending_, Deadline::at(TimePoint{})));
}

void Messages::send(int rank, std::uint32_t step, std::span<const std::byte> data) {
  transport::Request& request = requests_.emplace_back();
  pending_.push_back(&request);
  const auto& options = turn_.group.options();
  options.transport->send(options.members[rank], envelope(step), data, request);
}

void Messages::recv(int rank, std::uint32_t step, std::span<std::byte> data) {
  transport::Request& request = requests_.emplace_back();
  pending_.push_back(&request);
  const auto& options = turn_.group.options();
  options.transport->recv(options.members[rank], envelope(step), data, request);
}

Status Messages::wait() {
  if (pending_.empty()) return {};
  Status status = turn_.group.options().transport->wait(pending_, turn_.deadline);
  if (!status.ok()) status = explain(status);
  pending_.clear();
  requests_.clear();
  return status;
}

Status Messages::explain(const Status& status) {
  const auto& options = turn_.group.options();
  // A peer that has found out more has said so in full.
  if (const Status told = options.transport->aborted(options.id); !told.ok()) return told;
  if (status.code() == StatusCode::kMismatch) {
    for (const transport::Request* request : pending_) {
      if (request->status().code() != StatusCode::kMismatch) continue;
      const auto it = std::ranges::find(options.members, request->peer());
      const auto theirs = static_cast<std::size_t>(it - options.members.begin());
      return {StatusCode::kMismatch,
              fmt::format("the ranks called different things: {} called {}; {} called {}",
                          options.names[options.rank], describe(turn_.call),
                          options.names.at(theirs), describe(request->theirs())),
              request->peer()};
    }
  }
  if (status.code() == StatusCode::kTimeout) {
    std::set<int> suspects;
    for (const transport::Request* request : pending_) {
      if (!request->status().ok()) suspects.insert(request->peer());
    }
    const Deadline grace = Deadline::after(suspects.size() == 1 ? kSingleGrace : kManyGrace);
    while (!grace.expired()) {
      const Status better = options.transport->aborted(options.id);
      if (!better.ok() && better.peer() != options.members[options.rank]) return better;
      std::this_thread::sleep_for(1ms);
    }
  }
  // Among many, messages take several rounds: who keeps this rank waiting may wait as well.
  if (status.code() == StatusCode::kTimeout && options.members.size() > kFewRanks) {
    return Status(status.code(),
                  fmt::format("{}, or for one that it waits for in turn", status.message()),
                  status.peer())
        .withContext(describe(turn_.call));
  }
  return status.withContext(describe(turn_.call));
}

}  // namespace colla::collective
