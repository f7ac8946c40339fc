#include "ps/front.h"

#include <fmt/format.h>

#include <utility>

namespace colla::ps {
namespace {

// A worker has said where its memory is, so it is there: this is for the system.
constexpr std::chrono::seconds kToMap{2};

}  // namespace

ServerFront::ServerFront(Options options, PlacesOf placesOf)
    : options_(std::move(options)),
      transport_(*options_.transport),
      placesOf_(std::move(placesOf)),
      outbox_(transport_),
      sequences_(static_cast<std::size_t>(options_.servers)) {
  const auto open = [this](int member, std::uint32_t channel) {
    inboxes_.push_back(std::make_unique<Inbox>(transport_, member, peerOf(member), channel));
    inboxes_.back()->open();
  };
  for (int worker = 0; worker < options_.workers; ++worker) open(worker, kWorkerChannel);
  open(options_.recorder, kSaverChannel);
  for (int server = 0; server < options_.servers; ++server) {
    // The first server talks to the others, and they to it.
    if (server != options_.rank && (options_.rank == 0 || server == 0)) {
      open(options_.workers + server, serverChannel());
    }
  }
}

void ServerFront::wait(TimePoint until) {
  pending_.clear();
  for (const auto& inbox : inboxes_) {
    if (transport::Request* const request = inbox->pending()) pending_.push_back(request);
  }
  transport_.waitAny(pending_, Deadline::at(until));
}

void ServerFront::take(const OnAsk& onAsk, const OnLost& onLost) {
  for (const auto& inbox : inboxes_) {
    const int member = inbox->member();
    while (true) {
      auto next = inbox->next([&](const Ask& ask, std::vector<std::byte>& payload) {
        return targetsOf(member, ask, payload);
      });
      if (!next.ok()) {
        close(member);
        onLost(member, next.status());
      }
      if (!next.ok() || !next->has_value()) break;
      onAsk(**next);
    }
  }
}

void ServerFront::close(int member) {
  for (const auto& inbox : inboxes_) {
    if (inbox->member() == member) inbox->close();
  }
}

// Only pushes have a place of their own; other payloads have the length that they say.
Result<std::vector<std::span<std::byte>>> ServerFront::targetsOf(int member, const Ask& ask,
                                                                 std::vector<std::byte>& payload) {
  if (ask.topic == Topic::kPush && !isServer(member)) {
    auto places = placesOf_(member, ask);
    if (places.ok()) return places;
    return places.status().withContext(fmt::format("a push of {}", nameOf(member)));
  }
  std::vector<std::span<std::byte>> targets;
  if (ask.place.region != transport::Place::kNowhere) return targets;
  if (ask.bytes > kMostPayload) {
    return {StatusCode::kInvalidArgument, fmt::format("{} sends {} bytes at once: the most is {}",
                                                      nameOf(member), ask.bytes, kMostPayload)};
  }
  payload.resize(ask.bytes);
  if (ask.bytes > 0) targets.emplace_back(payload);
  return targets;
}

Result<std::span<const std::byte>> ServerFront::payloadOf(const Asked& asked,
                                                          transport::Mapping& keep) {
  if (asked.ask.place.region == transport::Place::kNowhere) {
    return std::span<const std::byte>(asked.payload);
  }
  COLLA_TRY_ASSIGN(keep,
                   map(asked.member, asked.ask.place, asked.ask.bytes, Deadline::after(kToMap)));
  return std::span<const std::byte>(keep.bytes);
}

Result<transport::Mapping> ServerFront::map(int worker, const transport::Place& place,
                                            std::size_t bytes, Deadline deadline) {
  transport::SharedMemory* const memory = transport_.sharedMemory();
  if (memory == nullptr) return {StatusCode::kInvalidArgument, "there is no shared memory here"};
  return memory->map(peerOf(worker), place, bytes, deadline);
}

void ServerFront::answer(const Asked& to, Answer head, std::vector<std::byte> payload) {
  head.bytes = payload.size();
  const int peer = peerOf(to.member);
  outbox_.send(peer, envelopeOf(to.channel, to.sequence, kAnswerStep), encode(head));
  if (payload.empty()) return;
  outbox_.send(peer, envelopeOf(to.channel, to.sequence, kResultStep), std::move(payload));
}

void ServerFront::answer(const Asked& to, Answer head,
                         std::span<const std::span<const std::byte>> parts,
                         const std::shared_ptr<const void>& keep) {
  for (const std::span<const std::byte> part : parts) head.bytes += part.size();
  const int peer = peerOf(to.member);
  outbox_.send(peer, envelopeOf(to.channel, to.sequence, kAnswerStep), encode(head));
  for (std::uint32_t step = kResultStep; const std::span<const std::byte> part : parts) {
    outbox_.send(peer, envelopeOf(to.channel, to.sequence, step++), part, keep);
  }
}

void ServerFront::refuse(const Asked& to, const Status& why, std::int64_t step) {
  const auto text = std::as_bytes(std::span(why.message()));
  answer(to, {.code = why.code(), .step = step}, std::vector(text.begin(), text.end()));
}

void ServerFront::tell(int server, Ask ask, std::vector<std::byte> payload) {
  const std::uint32_t sequence = sequences_[server]++;
  const int peer = peerOf(options_.workers + server);
  ask.bytes = payload.size();
  outbox_.send(peer, envelopeOf(serverChannel(), sequence, kAskStep), encode(ask));
  if (payload.empty()) return;
  outbox_.send(peer, envelopeOf(serverChannel(), sequence, kPayloadStep), std::move(payload));
}

void ServerFront::bidFarewell() {
  for (const auto& inbox : inboxes_) {
    if (isServer(inbox->member())) tell(serverOf(inbox->member()), {.topic = Topic::kLeave});
  }
}

}  // namespace colla::ps
