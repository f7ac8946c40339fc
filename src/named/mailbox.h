// Messages of any length between this process and one other: never blocks.
//
// A message is a packet of fixed size, whose rest follows where it does not fit. Not thread safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "colla/status.h"
#include "transport/outbox.h"
#include "transport/transport.h"

namespace colla::named {

class Mailbox {
 public:
  // `group` tells these messages from all others between the two, which have a mailbox each.
  Mailbox(transport::Transport& transport, int peer, std::uint32_t group);
  // Withdraws what is under way.
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  int peer() const { return peer_; }
  void send(const std::vector<std::byte>& message);
  // Gives what was sent until the deadline to leave.
  void flush(Deadline deadline) { outbox_.flush(deadline); }

  // What to wait for before next() has more to say.
  transport::Request* pending() { return &incoming_; }
  // The next message, if it has come. An error (the peer is lost, or sends nonsense) stays.
  Result<std::optional<std::vector<std::byte>>> next();

 private:
  static constexpr std::size_t kPacketBytes = 512;
  static constexpr std::size_t kInlineBytes = kPacketBytes - sizeof(std::uint64_t);
  using Packet = std::array<std::byte, kPacketBytes>;

  void listen();
  void post(std::uint32_t step, std::vector<std::byte> bytes);

  transport::Transport& transport_;
  transport::Outbox outbox_;
  const int peer_;
  const std::uint32_t group_;
  std::uint32_t sent_ = 0;
  std::uint32_t received_ = 0;

  Packet packet_{};
  std::vector<std::byte> message_;
  bool hasPacket_ = false;
  Status broken_;
  transport::Request incoming_;
};

}  // namespace colla::named
