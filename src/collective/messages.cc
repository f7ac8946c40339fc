#include "collective/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace colla::collective {
namespace {

using namespace std::chrono_literals;

// How long after a deadline a rank still listens for those that it waited for, from the last news.
constexpr auto kGrace = 400ms;
constexpr auto kLongestGrace = 2s;

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
  since_ = std::chrono::steady_clock::now();
  Status status = turn_.group.options().transport->wait(pending_, turn_.deadline);
  if (!status.ok()) status = explain(status);
  pending_.clear();
  requests_.clear();
  return status;
}

const std::string& Messages::nameOf(int peer) const {
  const auto& options = turn_.group.options();
  const auto it = std::ranges::find(options.members, peer);
  return options.names.at(static_cast<std::size_t>(it - options.members.begin()));
}

Status Messages::explain(const Status& status) {
  const auto& options = turn_.group.options();
  // A peer that has found out more has said so in full; of lateness each knows its own part only.
  const Status told = options.transport->aborted(options.id);
  if (!told.ok() && told.code() != StatusCode::kTimeout) return told;
  if (status.code() == StatusCode::kTimeout) return findLate();
  if (status.code() == StatusCode::kMismatch) {
    for (const transport::Request* request : pending_) {
      if (request->status().code() != StatusCode::kMismatch) continue;
      // The same call with other sizes: the transport has said whose.
      if (request->theirs() == turn_.call)
        return request->status().withContext(describe(turn_.call));
      return {StatusCode::kMismatch,
              fmt::format("the ranks called different things: {} called {}; {} called {}",
                          options.names[options.rank], describe(turn_.call),
                          nameOf(request->peer()), describe(request->theirs())),
              request->peer()};
    }
  }
  return status.withContext(describe(turn_.call));
}

// Among many, messages take several rounds: whom this rank waited for may have waited as well. So
// everybody tells those it knows whom it waited for, which ends their waits too. Who has something
// to say is not late; when all that this rank waited for have, one of them knows more.
Status Messages::findLate() {
  const auto& options = turn_.group.options();
  transport::Transport& transport = *options.transport;
  const std::vector<int> peers = unfinished();
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - since_;
  const auto accuse = [&](const std::vector<int>& late) -> Status {
    std::string list;
    for (const int peer : late) list += (list.empty() ? "" : ", ") + nameOf(peer);
    return {StatusCode::kTimeout,
            fmt::format("{}: waited {:.1f} s for {}", describe(turn_.call), waited.count(), list),
            late.front()};
  };
  const auto view = [&]() -> Status {
    std::vector<int> silent;
    Status better;
    for (const int peer : peers) {
      const Status said = transport.abortedBy(peer, options.id);
      if (said.ok()) silent.push_back(peer);
      if (!said.ok() && said.peer() != options.members[options.rank]) better = said;
    }
    if (!silent.empty()) return accuse(silent);
    return better.ok() ? accuse(peers) : better;
  };

  Status mine;
  const Deadline end = Deadline::after(kLongestGrace);
  for (Deadline grace = Deadline::after(kGrace); !grace.expired() && !end.expired();) {
    const Status now = view();
    if (now.peer() == mine.peer()) {
      std::this_thread::sleep_for(1ms);
      continue;
    }
    mine = now;
    transport.abort(options.id, mine, options.members);
    grace = Deadline::after(kGrace);
  }
  return view();
}

std::vector<int> Messages::unfinished() const {
  std::vector<int> peers;
  for (const transport::Request* request : pending_) {
    const bool known = std::ranges::find(peers, request->peer()) != peers.end();
    if (!request->status().ok() && !known) peers.push_back(request->peer());
  }
  return peers;
}

}  // namespace colla::collective
