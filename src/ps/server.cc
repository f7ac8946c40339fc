#include "ps/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/log.h"
#include "ps/server_worker.h"

namespace colla::ps {
namespace {

using namespace std::chrono_literals;

constexpr auto kLastWords = 2s;

}  // namespace

Server::Server(ServerOptions options)
    : options_(std::move(options)),
      transport_(*options_.transport),
      outbox_(transport_),
      workers_(static_cast<std::size_t>(options_.workers)),
      here_(options_.workers),
      team_(options_.threads, options_.worthSharing),
      reports_(static_cast<std::size_t>(options_.workers)),
      squares_(static_cast<std::size_t>(options_.servers)),
      serverSequences_(static_cast<std::size_t>(options_.servers)) {}

Server::~Server() = default;

Status Server::run() {
  listen();
  std::vector<transport::Request*> pending;
  while (here_ > 0) {
    pending.clear();
    for (const auto& inbox : inboxes_) {
      if (transport::Request* const request = inbox->pending()) pending.push_back(request);
    }
    transport_.waitAny(pending, Deadline::at(nextDeadline()));
    for (const auto& inbox : inboxes_) take(*inbox);
    checkPushed();
    outbox_.sweep();
    keepTime();
  }
  // Another server may still wait for the last worker's good-bye: it need not miss this one.
  for (const auto& inbox : inboxes_) {
    if (inbox->channel() != serverChannel() || !failure_.empty() || again_) continue;
    tell(inbox->peer() - options_.workers, {.topic = Topic::kLeave});
  }
  outbox_.flush(Deadline::after(kLastWords));
  if (failure_.empty()) return {};
  return {StatusCode::kGroupBroken, failure_};
}

void Server::listen() {
  const auto open = [this](int peer, std::uint32_t channel) {
    inboxes_.push_back(std::make_unique<Inbox>(transport_, peer, channel));
    inboxes_.back()->open();
  };
  for (int worker = 0; worker < options_.workers; ++worker) open(worker, kWorkerChannel);
  open(0, kSaverChannel);
  for (int server = 0; server < options_.servers; ++server) {
    // The others talk to the first, and it to them.
    if (server != options_.rank && (first() || server == 0)) {
      open(peerOfServer(server), serverChannel());
    }
  }
}

void Server::take(Inbox& inbox) {
  const auto targets = [&](const Ask& ask, std::vector<std::byte>& payload) {
    return targetsOf(inbox.peer(), ask, payload);
  };
  while (true) {
    auto next = inbox.next(targets);
    if (!next.ok()) return lost(inbox.peer(), next.status());
    if (!next->has_value()) return;
    Asked asked = **std::move(next);
    const Status status = inbox.channel() == serverChannel() ? handleServer(asked) : handle(asked);
    if (!status.ok()) refuse(asked, status);
  }
}

// A peer's last inbox tells; the others are closed.
void Server::lost(int peer, const Status& status) {
  for (const auto& inbox : inboxes_) {
    if (inbox->peer() == peer) inbox->close();
  }
  if (peer >= options_.workers) {
    fail(fmt::format("{} is lost: {}", nameOf(peer), status.message()));
    here_ = 0;  // Nothing can be made good: those who wait see this server end.
    return;
  }
  if (workers_[peer].gone) return;
  if (first()) log::warn("{} is lost: {}", nameOf(peer), status.message());
  gone(peer, /*finished=*/false);
}

// Only pushes have a place of their own; other payloads are of the length that they say.
Result<std::vector<std::span<std::byte>>> Server::targetsOf(int peer, const Ask& ask,
                                                            std::vector<std::byte>& payload) {
  std::vector<std::span<std::byte>> targets;
  if (ask.topic == Topic::kPush) {
    if (!declared() || ask.number < 0 || ask.number >= static_cast<int>(layout_->blocks().size()) ||
        layout_->blocks()[ask.number].server != options_.rank) {
      return {StatusCode::kInvalidArgument,
              fmt::format("{} pushes block {}, which is not here", nameOf(peer), ask.number)};
    }
    if (!workers_[peer].areas.empty()) return targets;
    auto& staged = workers_[peer].staged[ask.number];
    while (staged.size() < static_cast<std::size_t>(shard_->tree().leavesOf(peer))) {
      staged.emplace_back(layout_->blocks()[ask.number].bytes);
    }
    for (const AlignedBytes& memory : staged) targets.push_back(memory.bytes());
    return targets;
  }
  if (ask.place.region != transport::Place::kNowhere) return targets;
  if (ask.bytes > kMostPayload) {
    return {StatusCode::kInvalidArgument, fmt::format("{} sends {} bytes at once: the most is {}",
                                                      nameOf(peer), ask.bytes, kMostPayload)};
  }
  payload.resize(ask.bytes);
  if (ask.bytes > 0) targets.emplace_back(payload);
  return targets;
}

Result<std::span<const std::byte>> Server::payloadOf(const Asked& from, transport::Mapping& keep) {
  if (from.ask.place.region == transport::Place::kNowhere) {
    return std::span<const std::byte>(from.payload);
  }
  transport::SharedMemory* const memory = transport_.sharedMemory();
  if (memory == nullptr) return {StatusCode::kInvalidArgument, "there is no shared memory here"};
  COLLA_TRY_ASSIGN(
      keep, memory->map(from.peer, from.ask.place, from.ask.bytes, Deadline::after(kLastWords)));
  return std::span<const std::byte>(keep.bytes);
}

Status Server::handle(Asked& from) {
  if (!failure_.empty() && from.ask.topic != Topic::kLeave) {
    return {StatusCode::kGroupBroken, failure_};
  }
  if (!declared() && from.ask.topic != Topic::kDeclare && from.ask.topic != Topic::kLeave) {
    return {StatusCode::kInvalidArgument, "nothing has been declared yet"};
  }
  switch (from.ask.topic) {
    case Topic::kDeclare:
      return declare(from);
    case Topic::kAttach:
      return attach(from);
    case Topic::kFill:
    case Topic::kFillRows:
      return fill(from);
    case Topic::kStart:
      return start(from);
    case Topic::kBegin:
      workers_[from.peer].waits = from;
      if (started_) deliver({&from.peer, 1});
      return {};
    case Topic::kOthers:
      others_ = from;
      answerLast();
      return {};
    case Topic::kPush:
      push(from.peer, from.ask);
      return {};
    case Topic::kPushRows:
      return pushRows(from);
    case Topic::kFinish:
      return finish(from);
    case Topic::kPullRows:
      return pullRows(from);
    case Topic::kSnapshot: {
      if (!first()) return {StatusCode::kInvalidArgument, "the first server takes snapshots"};
      deferred_.push_back(from);
      Order snapshot;
      snapshot.snapshot = true;
      order(std::move(snapshot));
      return {};
    }
    case Topic::kFetch:
    case Topic::kFetchRows:
    case Topic::kFetchSteps:
      return fetch(from);
    case Topic::kStatistics:
      answer(from, {.step = step_}, encode(statistics_));
      return {};
    case Topic::kLeave:
      again_ = again_ || from.ask.number != 0;
      gone(from.peer, /*finished=*/true);
      answer(from, {.step = step_});
      return {};
    default:
      return {StatusCode::kInvalidArgument,
              fmt::format("an ask of unknown topic {}", static_cast<int>(from.ask.topic))};
  }
}

Status Server::handleServer(const Asked& from) {
  switch (from.ask.topic) {
    case Topic::kArrived:
      arrived(from.ask.number, from.ask.step);
      return {};
    case Topic::kSquares: {
      COLLA_TRY_ASSIGN(squares_[from.peer - options_.workers], Squares::decode(from.payload));
      work();
      return {};
    }
    case Topic::kDecision: {
      COLLA_TRY_ASSIGN(Order received, decodeOrder(from.payload));
      order(std::move(received));
      return {};
    }
    case Topic::kLeave:
      for (const auto& inbox : inboxes_) {
        if (inbox->peer() == from.peer) inbox->close();
      }
      return {};
    case Topic::kScale:
      scaleOrdered_ = std::bit_cast<double>(from.ask.step);
      work();
      return {};
    default:
      return {StatusCode::kInvalidArgument, "a server does not ask that"};
  }
}

void Server::answer(const Asked& to, const Answer& head, std::vector<std::byte> payload) {
  Answer whole = head;
  whole.bytes = payload.size();
  outbox_.send(to.peer, envelopeOf(to.channel, to.sequence, kAnswerStep), encode(whole));
  if (payload.empty()) return;
  outbox_.send(to.peer, envelopeOf(to.channel, to.sequence, kResultStep), std::move(payload));
}

void Server::refuse(const Asked& to, const Status& why) {
  if (failure_.empty()) log::warn("refusing {}: {}", nameOf(to.peer), why.message());
  const auto text = std::as_bytes(std::span(why.message()));
  answer(to, {.code = why.code(), .step = step_}, {text.begin(), text.end()});
}

TimePoint Server::nextDeadline() const {
  const TimePoint tick = policy_ ? policy_->nextDeadline() : TimePoint::max();
  return waitingSince_ ? std::min(tick, *waitingSince_ + options_.timeout) : tick;
}

// Stragglers are found by time, and so is a step that never ends.
void Server::keepTime() {
  if (!policy_ || !failure_.empty()) return;
  const TimePoint now = std::chrono::steady_clock::now();
  if (now >= policy_->nextDeadline()) decide(policy_->tick(now));
  const std::vector<int> missing = policy_->waitsFor();
  const bool some =
      std::ranges::any_of(workers_, [](const Worker& w) { return w.finish.has_value(); });
  if (missing.empty() || !some) {
    waitingSince_.reset();
    return;
  }
  if (!waitingSince_) waitingSince_ = now;
  if (now - *waitingSince_ < options_.timeout) return;
  std::string names;
  for (const int worker : missing) names += (names.empty() ? "" : ", ") + nameOf(worker);
  fail(fmt::format("step {} has waited {:.1f} s for {}", step_,
                   std::chrono::duration<double>(now - *waitingSince_).count(), names));
}

}  // namespace colla::ps
