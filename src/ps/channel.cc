#include "ps/channel.h"

#include <fmt/format.h>

#include <array>
#include <deque>

namespace colla::ps {

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
  std::vector<Reply> replies(expected.size());
  struct Incoming {
    std::array<std::byte, kAnswerBytes> head;
    std::deque<transport::Request> requests;  // The answer's head, then the messages of its result.
  };
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
  const auto gather = [&] {
    pending.clear();
    for (const std::size_t i : open) {
      for (transport::Request& request : incoming[i].requests) {
        if (!request.done()) pending.push_back(&request);
      }
    }
  };
  Status status;
  while (status.ok() && !open.empty()) {
    gather();
    // It names those that did not answer, when they don't.
    if (!pending.empty() && !transport.waitAny(pending, deadline)) {
      status = transport.wait(pending, Deadline::at(TimePoint::min()));
      break;
    }
    std::erase_if(open, [&](std::size_t i) {
      for (const transport::Request& request : incoming[i].requests) {
        if (!status.ok() || !request.done()) return false;
        status = request.status();
      }
      if (!status.ok()) return true;
      Reply& reply = replies[i];
      reply.head = decodeAnswer(incoming[i].head);
      if (incoming[i].requests.size() == 1 && reply.head.bytes > 0) {
        status = expected[i].channel->receive(expected[i], reply, incoming[i].requests);
        return !status.ok();
      }
      if (reply.head.code != StatusCode::kOk) {
        status = {reply.head.code, std::string(reinterpret_cast<const char*>(reply.payload.data()),
                                               reply.payload.size())};
      }
      return true;
    });
  }
  gather();
  if (!pending.empty()) {
    static_cast<void>(transport.wait(pending, Deadline::at(TimePoint::min())));
  }
  if (!status.ok()) return status;
  return replies;
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
