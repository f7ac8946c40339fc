// Messages between two ranks of a process group, matched by source and tag in the order in which
// both sides asked for them; a receiver may also take the first that comes from anybody.
//
// A message is announced by a header (tag and size) and then follows, straight from the sender's
// memory into the receiver's. A rank listens for headers of those ranks alone that it expects
// something from; what it did not ask for yet waits, announced, at its sender (or, up to 64 KiB,
// in the transport).
//
// A thread of its own makes progress from the first message on, so that messages wait neither for
// collectives nor for each other. Without messages under way it sleeps, and leaves the transport to
// others.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/thread_annotations.h"
#include "colla/status.h"
#include "transport/transport.h"

namespace colla::collective {

class Mailbox {
 public:
  static constexpr int kAnySource = -1;
  using Ticket = std::uint64_t;
  // Called once, on the mailbox's thread or that of the caller, without any lock. `source` is
  // whom a message came from.
  using Done = std::function<void(const Status& status, int source)>;

  // `group` tells its messages from others on the same transport, which must outlive the mailbox;
  // `names` are those of the peers, for texts.
  Mailbox(transport::Transport& transport, std::uint32_t group, std::vector<std::string> names);
  ~Mailbox() { close(); }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // `data` must stay in place until `done` is called.
  Ticket send(int to, std::uint32_t tag, std::span<const std::byte> data, Done done);
  // A message may be shorter than `data`, whose rest it leaves alone; a longer one is dropped, and
  // refused with kMismatch.
  Ticket recv(int from, std::uint32_t tag, std::span<std::byte> data, Done done);
  // Ends a message with `why`, unless it is done.
  void giveUp(Ticket ticket, Status why);
  // What is under way ends with kCancelled. Nothing but giveUp(), which then does nothing, may be
  // called afterwards.
  void close();

 private:
  struct Header {
    std::uint64_t bytes = 0;
    std::uint64_t tag = 0;
  };
  struct Outgoing {
    Ticket ticket;
    int to;
    Header header;
    Done done;
    transport::Request announcement;
    transport::Request payload;
  };
  struct Incoming {
    Ticket ticket;
    int from;
    std::uint32_t tag;
    std::span<std::byte> data;
    Done done;
    int source = kAnySource;  // Once it is matched.
    Status refusal;           // What is wrong with the message that came.
    std::unique_ptr<std::byte[]> dropped;
    transport::Request payload;
  };
  // A message whose header came before anybody asked for it.
  struct Announced {
    Header header;
    std::uint32_t number;
    std::uint64_t arrival;
  };
  // What one peer has announced.
  struct Inbox {
    bool listening = false;
    Header header;  // Where the next one goes.
    transport::Request request;
    std::uint32_t next = 0;  // Headers so far.
    std::deque<Announced> waiting;
    Status lost;
  };
  struct GivenUp {
    Ticket ticket;
    Status why;
  };
  using Finished = std::vector<std::function<void()>>;

  transport::Envelope envelope(std::uint32_t channel, std::uint32_t number) const;
  void wake() COLLA_REQUIRES(mutex_);

  void runOnThread();
  // Those below work on the thread, and collect what to call afterwards.
  void takeHeaders() COLLA_REQUIRES(mutex_);
  void match() COLLA_REQUIRES(mutex_);
  bool matches(Incoming& incoming) COLLA_REQUIRES(mutex_);
  void accept(Incoming& incoming, int source, const Announced& announced) COLLA_REQUIRES(mutex_);
  void listen() COLLA_REQUIRES(mutex_);
  void takeGivenUp(Finished& finished) COLLA_REQUIRES(mutex_);
  void takeDone(Finished& finished) COLLA_REQUIRES(mutex_);
  Status hopeless(const Incoming& incoming) const COLLA_REQUIRES(mutex_);
  // What there is to wait for. Sets news_ where something has ended since takeDone() looked.
  std::vector<transport::Request*> pending() COLLA_REQUIRES(mutex_);
  void withdraw(std::span<transport::Request* const> requests);
  void cancelAll(Finished& finished) COLLA_REQUIRES(mutex_);

  transport::Transport& transport_;
  const std::uint32_t group_;
  const std::vector<std::string> names_;

  Mutex mutex_;
  Condition changed_;
  bool closing_ COLLA_GUARDED_BY(mutex_) = false;
  bool news_ COLLA_GUARDED_BY(mutex_) = false;         // The thread has something to look at.
  bool inTransport_ COLLA_GUARDED_BY(mutex_) = false;  // It sleeps there, and not on changed_.
  Ticket lastTicket_ COLLA_GUARDED_BY(mutex_) = 0;
  std::uint64_t arrivals_ COLLA_GUARDED_BY(mutex_) = 0;
  std::vector<std::uint32_t> sent_ COLLA_GUARDED_BY(mutex_);  // By peer.
  std::vector<Inbox> inboxes_ COLLA_GUARDED_BY(mutex_);       // By peer.
  std::list<Outgoing> outgoing_ COLLA_GUARDED_BY(mutex_);
  std::list<Incoming> incoming_
      COLLA_GUARDED_BY(mutex_);  // In the order in which they were asked for.
  std::vector<GivenUp> givenUp_ COLLA_GUARDED_BY(mutex_);

  // A message of this rank to itself ends the thread's sleep in the transport.
  std::uint32_t wakes_ COLLA_GUARDED_BY(mutex_) = 0;
  bool wakePosted_ COLLA_GUARDED_BY(mutex_) = false;
  bool wakeSent_ COLLA_GUARDED_BY(mutex_) = false;
  transport::Request wakeSend_ COLLA_GUARDED_BY(mutex_);
  transport::Request wakeRecv_ COLLA_GUARDED_BY(mutex_);

  std::thread thread_;  // wake() starts it under the mutex, close() joins it.
};

}  // namespace colla::collective
