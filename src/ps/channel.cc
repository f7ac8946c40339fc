#include "ps/channel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>

#include "base/readable.h"

namespace colla::ps {
namespace {

// For the answers of other servers, when one has refused: most asks have an answer at once.
constexpr std::chrono::seconds kAfterRefusal{2};

}  // namespace

std::uint32_t Channel::ask(Ask ask, std::vector<std::byte> payload) {
  const std::uint32_t sequence = reserve();
  if (ask.place.region == transport::Place::kNowhere) ask.bytes = payload.size();
  outbox_.send(peer_, envelopeOf(channel_, sequence, kAskStep), encode(ask));
  if (!payload.empty()) {
    outbox_.send(peer_, envelopeOf(channel_, sequence, kPayloadStep), std::move(payload));
  }
  return sequence;
}

Result<Channel::Reply> Channel::call(const Ask& ask, std::vector<std::byte> payload,
                                     Deadline deadline) {
  const Expected expected{this, this->ask(ask, std::move(payload))};
  COLLA_TRY_ASSIGN(auto replies, wait({&expected, 1}, deadline));
  return std::move(replies.front());
}

Result<std::vector<Channel::Reply>> Channel::wait(std::span<const Expected> expected,
                                                  Deadline deadline) {
  const TimePoint since = std::chrono::steady_clock::now();
  std::vector<Reply> replies(expected.size());
  std::vector<Incoming> incoming(expected.size());
  transport::Transport& transport = expected.front().channel->transport_;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Channel& channel = *expected[i].channel;
    transport.recv(channel.peer_, envelopeOf(channel.channel_, expected[i].sequence, kAnswerStep),
                   incoming[i].head, incoming[i].requests.emplace_back());
  }
  std::vector<std::size_t> open(expected.size());
  for (std::size_t i = 0; i < open.size(); ++i) open[i] = i;
  std::vector<transport::Request*> pending;
  // What is still to come; true if some answer is whole, as one is whose result was there already.
  const auto gather = [&] {
    pending.clear();
    bool whole = false;
    for (const std::size_t i : open) {
      const std::size_t before = pending.size();
      for (transport::Request& request : incoming[i].requests) {
        if (!request.done()) pending.push_back(&request);
      }
      whole = whole || pending.size() == before;
    }
    return whole;
  };
  Status status;
  Status refusal;  // The first one.
  while (status.ok() && !open.empty()) {
    if (!gather() && !transport.waitAny(pending, deadline)) {
      status = silent(expected, open, since);
      break;
    }
    std::erase_if(open, [&](std::size_t i) {
      if (!status.ok()) return false;
      const auto whole = expected[i].channel->take(expected[i], incoming[i], replies[i]);
      status = whole.status();
      if (!whole.ok() || !*whole) return false;
      const Reply& reply = replies[i];
      if (reply.head.code != StatusCode::kOk && refusal.ok()) {
        refusal = {reply.head.code, std::string(reinterpret_cast<const char*>(reply.payload.data()),
                                                reply.payload.size())};
        deadline = deadline.earlier(Deadline::after(kAfterRefusal));
      }
      return true;
    });
  }
  gather();
  if (!pending.empty()) {
    static_cast<void>(transport.wait(pending, Deadline::at(TimePoint::min())));
  }
  if (!refusal.ok()) return refusal;
  if (!status.ok()) return status;
  return replies;
}

// Whether the answer is whole. Once its head is there, what follows it is asked for.
Result<bool> Channel::take(const Expected& expected, Incoming& incoming, Reply& reply) {
  for (const transport::Request& request : incoming.requests) {
    if (!request.done()) return false;
    COLLA_TRY(request.status());
  }
  reply.head = decodeAnswer(incoming.head);
  if (incoming.requests.size() > 1 || reply.head.bytes == 0) return true;
  COLLA_TRY(receive(expected, reply, incoming.requests));
  return false;
}

// Which of them have not answered, and for how long.
Status Channel::silent(std::span<const Expected> expected, std::span<const std::size_t> open,
                       TimePoint since) {
  std::vector<std::string> names;
  for (const std::size_t i : open) names.push_back(expected[i].channel->name_);
  const auto waited = std::chrono::steady_clock::now() - since;
  return {
      StatusCode::kTimeout,
      fmt::format("{} did not answer for {} (collective_timeout, and {} more that servers have)",
                  fmt::join(names, ", "), inSeconds(waited), inSeconds(kServersLonger)),
      expected[open.front()].channel->peer_};
}

// The result that follows an answer's head.
Status Channel::receive(const Expected& expected, Reply& reply,
                        std::deque<transport::Request>& requests) {
  std::vector<std::span<std::byte>> targets;
  if (reply.head.code == StatusCode::kOk) targets = expected.targets;
  std::uint64_t most = 0;
  for (const std::span<std::byte> target : targets) most += target.size();
  const bool fits = targets.empty() ? reply.head.bytes <= kMostPayload : reply.head.bytes == most;
  if (!fits) {
    return {StatusCode::kMismatch, fmt::format("{} answers with {} bytes, which nobody asked for",
                                               name_, reply.head.bytes)};
  }
  if (targets.empty()) {
    reply.payload.resize(reply.head.bytes);
    targets.emplace_back(reply.payload);
  }
  for (std::uint32_t step = kResultStep; const std::span<std::byte> target : targets) {
    transport_.recv(peer_, envelopeOf(channel_, expected.sequence, step++), target,
                    requests.emplace_back());
  }
  return {};
}

}  // namespace colla::ps
