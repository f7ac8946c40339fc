// What one peer asks of a server, message by message. Never blocks: the server waits for
// pending() of all its inboxes at once.
//
// Not thread safe.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "colla/status.h"
#include "ps/wire.h"
#include "transport/transport.h"

namespace colla::ps {

// Who asked what, and how the answer finds its way.
struct Asked {
  int member = 0;  // Of the epoch: see ps/front.h.
  std::uint32_t channel = 0;
  std::uint32_t sequence = 0;
  Ask ask;
  std::vector<std::byte> payload;  // Empty if it lies in the peer's memory.
};

class Inbox {
 public:
  // Where the messages that follow an ask are to be put (`payload` may be made as large as needed);
  // an error refuses the peer.
  using Targets = std::function<Result<std::vector<std::span<std::byte>>>(
      const Ask&, std::vector<std::byte>& payload)>;

  // `peer`: the transport's number of the member.
  Inbox(transport::Transport& transport, int member, int peer, std::uint32_t channel)
      : transport_(transport), member_(member), peer_(peer), channel_(channel) {}
  // Withdraws what is under way.
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  int member() const { return member_; }
  // Begins to listen.
  void open();
  // Listens no more.
  void close();
  // What it waits for; null when it is closed.
  transport::Request* pending();

  // The next whole ask, if it has come. kPeerLost when the peer is gone, kInvalidArgument when it
  // asks for what can't be; the inbox is closed then.
  Result<std::optional<Asked>> next(const Targets& targets);

 private:
  void listen();

  transport::Transport& transport_;
  const int member_;
  const int peer_;
  const std::uint32_t channel_;
  bool open_ = false;
  std::uint32_t sequence_ = 0;
  std::array<std::byte, kAskBytes> bytes_;  // Of the ask,
  Ask ask_;                                 // once it has come.
  std::vector<std::byte> buffer_;
  transport::Request head_;
  bool hasHead_ = false;
  std::deque<transport::Request> payload_;
};

}  // namespace colla::ps
