#include "ps/channel.h"

#include <fmt/format.h>

#include <deque>

namespace colla::ps {

std::uint32_t Channel::ask(Ask ask, std::vector<std::byte> payload) {
  const std::uint32_t sequence = reserve();
  if (ask.place.region == transport::Place::kNowhere) ask.bytes = payload.size();
  outbox_.send(peer_, envelopeOf(channel_, sequence, kAskStep), bytesOf(ask));
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
  std::deque<transport::Request> requests(expected.size());
  std::vector<bool> hasHead(expected.size(), false);
  transport::Transport& transport = expected.front().channel->transport_;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& [channel, sequence] = expected[i];
    transport.recv(channel->peer_, envelopeOf(channel->channel_, sequence, kAnswerStep),
                   std::as_writable_bytes(std::span(&replies[i].head, 1)), requests[i]);
  }
  std::vector<std::size_t> open(expected.size());
  for (std::size_t i = 0; i < open.size(); ++i) open[i] = i;
  std::vector<transport::Request*> pending;
  Status status;
  while (status.ok() && !open.empty()) {
    pending.clear();
    for (const std::size_t i : open) pending.push_back(&requests[i]);
    // It names those that did not answer, when they don't.
    if (!transport.waitAny(pending, deadline)) {
      status = transport.wait(pending, Deadline::at(TimePoint::min()));
      break;
    }
    std::erase_if(open, [&](std::size_t i) {
      if (!requests[i].done() || !status.ok()) return false;
      const auto& [channel, sequence] = expected[i];
      status = requests[i].status();
      if (!status.ok()) return true;
      Reply& reply = replies[i];
      if (!hasHead[i] && reply.head.bytes > 0) {
        hasHead[i] = true;
        if (reply.head.bytes > kMostPayload) {
          status = {StatusCode::kMismatch, fmt::format("{} answers nonsense", channel->name_)};
          return true;
        }
        reply.payload.resize(reply.head.bytes);
        transport.recv(channel->peer_, envelopeOf(channel->channel_, sequence, kResultStep),
                       reply.payload, requests[i]);
        return false;
      }
      if (reply.head.code != StatusCode::kOk) {
        status = {reply.head.code, std::string(reinterpret_cast<const char*>(reply.payload.data()),
                                               reply.payload.size())};
      }
      return true;
    });
  }
  if (!open.empty()) {
    pending.clear();
    for (const std::size_t i : open) pending.push_back(&requests[i]);
    static_cast<void>(transport.wait(pending, Deadline::at(TimePoint::min())));
  }
  if (!status.ok()) return status;
  return replies;
}

}  // namespace colla::ps
