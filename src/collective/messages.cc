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

// A round has steps below 2^20, and with the highest bit as many again.
constexpr std::uint32_t kRoundShift = 20;
constexpr std::uint32_t kRounds = 1U << 11;  // After so many, the first one's messages are over.

}  // namespace

transport::Envelope Messages::envelope(std::uint32_t step) const {
  return {.group = turn_.group.options().id,
          .sequence = static_cast<std::uint32_t>(turn_.sequence),
          .step = step | (turn_.round % kRounds) << kRoundShift,
          .call = turn_.call};
}

Messages::~Messages() {
  if (pending_.empty()) return;
  static_cast<void>(turn_.crew.transport->wait(pending_, Deadline::at(TimePoint{})));
}

void Messages::send(int rank, std::uint32_t step, std::span<const std::byte> data) {
  transport::Request& request = requests_.emplace_back();
  pending_.push_back(&request);
  const Crew& crew = turn_.crew;
  crew.transport->send(crew.members[rank], envelope(step), data, request);
}

void Messages::recv(int rank, std::uint32_t step, std::span<std::byte> data) {
  transport::Request& request = requests_.emplace_back();
  pending_.push_back(&request);
  const Crew& crew = turn_.crew;
  crew.transport->recv(crew.members[rank], envelope(step), data, request);
}

Status Messages::wait() {
  if (pending_.empty()) return {};
  since_ = std::chrono::steady_clock::now();
  Status status = turn_.crew.transport->wait(pending_, turn_.deadline);
  if (!status.ok()) status = explain(status);
  pending_.clear();
  requests_.clear();
  return status;
}

const std::string& Messages::nameOf(int peer) const {
  const Crew& crew = turn_.crew;
  const auto it = std::ranges::find(crew.members, peer);
  return crew.names.at(static_cast<std::size_t>(it - crew.members.begin()));
}

Status Messages::explain(const Status& status) {
  const Crew& crew = turn_.crew;
  // A peer that has found out more has said so in full; of lateness each knows its own part only.
  const Status told = crew.transport->aborted(turn_.group.options().id);
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
                          crew.names[crew.rank], describe(turn_.call), nameOf(request->peer()),
                          describe(request->theirs())),
              request->peer()};
    }
  }
  return brokenIn(turn_.call, status);
}

// Among many, messages take several rounds: whom this rank waited for may have waited as well. So
// everybody tells those it knows whom it waited for, which ends their waits too. Who has something
// to say is not late; when all that this rank waited for have, one of them knows more.
Status Messages::findLate() {
  const Crew& crew = turn_.crew;
  transport::Transport& transport = *crew.transport;
  const std::uint32_t group = turn_.group.options().id;
  const std::vector<int> peers = unfinished();
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - since_;
  const auto accuse = [&](const std::vector<int>& late) -> Status {
    std::vector<std::string> names;
    for (const int peer : late) names.push_back(nameOf(peer));
    return didNotAnswer(names, late.front(), waited, turn_.call);
  };
  const auto view = [&]() -> Status {
    std::vector<int> silent;
    Status better;
    for (const int peer : peers) {
      const Status said = transport.abortedBy(peer, group);
      if (said.ok()) silent.push_back(peer);
      if (!said.ok() && said.peer() != crew.members[crew.rank]) better = said;
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
    transport.abort(group, mine, crew.members);
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
