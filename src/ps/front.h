// A server's doors: what workers and other servers send becomes whole asks, what it answers becomes
// messages. Never waits for one peer in particular.
//
// Members of an epoch are numbered: its workers from 0 on, then its servers. Not thread safe.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "colla/status.h"
#include "ps/inbox.h"
#include "ps/wire.h"
#include "transport/outbox.h"
#include "transport/transport.h"

namespace colla::ps {

class ServerFront {
 public:
  struct Options {
    transport::Transport* transport = nullptr;
    int rank = 0;  // Among the servers.
    int servers = 1;
    int workers = 1;
    int recorder = 0;                // The worker that reads snapshots.
    std::vector<std::string> names;  // Of all peers of the transport.
    std::vector<int> peers;          // The transport's number of each member; empty: the same.
    std::uint32_t life = 0;          // See ServerOptions.
  };
  // Where the messages of a pushed block go; kInvalidArgument loses the worker.
  using PlacesOf =
      std::function<Result<std::vector<std::span<std::byte>>>(int worker, const Ask& ask)>;
  using OnAsk = std::function<void(Asked& asked)>;
  // A member is lost, and why. Nothing comes from it any more.
  using OnLost = std::function<void(int member, const Status& why)>;

  ServerFront(Options options, PlacesOf placesOf);

  bool isServer(int member) const { return member >= options_.workers; }
  int serverOf(int member) const { return member - options_.workers; }
  const std::string& nameOf(int member) const { return options_.names[peerOf(member)]; }

  // Sleeps until something has come, or until then.
  void wait(TimePoint until);
  // Hands over what has come, in the order of each member's asks.
  void take(const OnAsk& onAsk, const OnLost& onLost);
  // Listens to a member no more.
  void close(int member);

  // The bytes that belong to an ask, where they lie; `keep` holds them there.
  Result<std::span<const std::byte>> payloadOf(const Asked& asked, transport::Mapping& keep);
  // Memory of a worker of this host. kInvalidArgument where none is shared.
  Result<transport::Mapping> map(int worker, const transport::Place& place, std::size_t bytes,
                                 Deadline deadline);

  void answer(const Asked& to, Answer head, std::vector<std::byte> payload = {});
  // The same with several parts, which `keep` holds in place and which may go to others too.
  void answer(const Asked& to, Answer head, std::span<const std::span<const std::byte>> parts,
              const std::shared_ptr<const void>& keep);
  void refuse(const Asked& to, const Status& why, std::int64_t step);
  // To another server.
  void tell(int server, Ask ask, std::vector<std::byte> payload = {});
  // To all servers that this one listens to: it ends, and is not lost.
  void bidFarewell();
  // Forgets what has been sent.
  void sweep() { outbox_.sweep(); }
  // Gives what is still on its way until then to leave.
  void flush(Deadline deadline) { outbox_.flush(deadline); }

 private:
  int peerOf(int member) const { return options_.peers.empty() ? member : options_.peers[member]; }
  // The last of the channels in ps/wire.h, and one more for each life.
  std::uint32_t serverChannel() const { return kServerChannel + options_.life; }
  Result<std::vector<std::span<std::byte>>> targetsOf(int member, const Ask& ask,
                                                      std::vector<std::byte>& payload);

  const Options options_;
  transport::Transport& transport_;
  const PlacesOf placesOf_;
  transport::Outbox outbox_;
  std::vector<std::unique_ptr<Inbox>> inboxes_;
  std::vector<std::uint32_t> sequences_;  // Of messages to each other server.
  std::vector<transport::Request*> pending_;
};

}  // namespace colla::ps
