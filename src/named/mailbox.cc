#include "named/mailbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace colla::named {
namespace {

constexpr std::uint32_t kPacketStep = 0;
constexpr std::uint32_t kRestStep = 1;
// Some hundred thousand announcements.
constexpr std::uint64_t kMostBytes = 64 << 20;

}  // namespace

Mailbox::Mailbox(transport::Transport& transport, int peer, std::uint32_t group)
    : transport_(transport), outbox_(transport), peer_(peer), group_(group) {
  listen();
}

Mailbox::~Mailbox() {
  transport::Request* const request = &incoming_;
  static_cast<void>(transport_.wait({&request, 1}, Deadline::at(TimePoint::min())));
}

void Mailbox::listen() {
  hasPacket_ = false;
  transport_.recv(peer_, {.group = group_, .sequence = received_, .step = kPacketStep, .call = {}},
                  packet_, incoming_);
}

void Mailbox::post(std::uint32_t step, std::vector<std::byte> bytes) {
  outbox_.send(peer_, {.group = group_, .sequence = sent_, .step = step, .call = {}},
               std::move(bytes));
}

void Mailbox::send(const std::vector<std::byte>& message) {
  std::vector<std::byte> packet(kPacketBytes);
  const std::uint64_t length = message.size();
  std::memcpy(packet.data(), &length, sizeof(length));
  const auto split = static_cast<std::ptrdiff_t>(std::min(message.size(), kInlineBytes));
  std::copy(message.begin(), message.begin() + split, packet.begin() + sizeof(length));
  post(kPacketStep, std::move(packet));
  if (message.size() > kInlineBytes) {
    post(kRestStep, std::vector<std::byte>(message.begin() + split, message.end()));
  }
  ++sent_;
}

Result<std::optional<std::vector<std::byte>>> Mailbox::next() {
  using Message = std::optional<std::vector<std::byte>>;
  if (!broken_.ok()) return broken_;
  if (!incoming_.done()) return Message();
  if (!incoming_.status().ok()) return broken_ = incoming_.status();
  if (!hasPacket_) {
    hasPacket_ = true;
    std::uint64_t length = 0;
    std::memcpy(&length, packet_.data(), sizeof(length));
    if (length > kMostBytes) {
      return broken_ = {StatusCode::kMismatch,
                        fmt::format("process {} sends a message of {} bytes: the most is {}", peer_,
                                    length, kMostBytes),
                        peer_};
    }
    message_.resize(length);
    const std::size_t split = std::min<std::size_t>(length, kInlineBytes);
    std::copy_n(packet_.begin() + sizeof(length), split, message_.begin());
    if (length > kInlineBytes) {
      transport_.recv(peer_,
                      {.group = group_, .sequence = received_, .step = kRestStep, .call = {}},
                      std::span(message_).subspan(split), incoming_);
      if (!incoming_.done()) return Message();
      if (!incoming_.status().ok()) return broken_ = incoming_.status();
    }
  }
  Message message = std::exchange(message_, {});
  ++received_;
  listen();
  return message;
}

}  // namespace colla::named
