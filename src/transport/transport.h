// Bytes between the processes of a job: the interface that all folders above use. Messenger
// implements it over any Backend (backend.h), which is what a new transport has to bring.
//
// A Transport is one process's end of a job. Peers are numbered 0..size()-1 in the membership's
// order (workers first, then servers). Messages between two peers are matched by group, sequence
// and step, so several operations can be under way at once and messages may be received in
// another order than they were sent.
//
// Thread safety: every function may be called from any thread. Progress is made by the threads
// that wait: there is no thread behind a Transport, so nothing moves while nobody waits.
//
// Failure: when a peer is lost, every request with it ends with kPeerLost, naming rank and host,
// and so does every later one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "colla/status.h"

namespace colla::transport {

class RequestList;
class SharedMemory;

// What the caller is doing, in 16 bytes that the transport carries and compares but does not
// read: the collective folder fills it. Two ranks whose calls differ have called different things.
struct Call {
  std::uint8_t operation = 0;
  std::uint8_t type = 0;
  std::uint8_t reduction = 0;
  std::uint8_t detail = 0;
  std::uint32_t root = 0;
  std::uint64_t count = 0;

  friend bool operator==(const Call&, const Call&) = default;
};

// Which message this is. (group, sequence, step) is unique for a pair of peers and a direction
// while the message is under way; `call` is compared once those three match.
struct Envelope {
  std::uint32_t group = 0;
  std::uint32_t sequence = 0;
  std::uint32_t step = 0;
  Call call;
};

// The state of one send or receive, owned by the caller, who keeps it (and the bytes) in place
// until done(). May be reused once done. It is also its own node in the messenger's queues, so
// that posting a message allocates nothing.
class Request {
 public:
  Request() = default;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  bool done() const { return done_.load(std::memory_order_acquire); }
  // Only when done().
  const Status& status() const { return status_; }
  // kMismatch only: what the peer was doing instead.
  const Call& theirs() const { return theirs_; }
  int peer() const { return peer_; }
  // Only when done(), and withdrawn: some of the message had moved by then. A send may have arrived
  // all the same, when it was small; of a large message the rest is lost. Without it the same
  // message can be sent, or received, by another request.
  bool begun() const { return begun_; }

 private:
  friend class Messenger;
  friend class PeerLink;
  friend class RequestList;

  void start(int peer, const Envelope& envelope, std::byte* data, std::size_t size) {
    peer_ = peer;
    status_ = {};
    envelope_ = envelope;
    data_ = data;
    size_ = size;
    assigned_ = 0;
    moved_ = 0;
    begun_ = false;
    done_.store(false, std::memory_order_relaxed);
  }
  // The owner may destroy the request as soon as the store is seen: it comes last.
  void finish(Status status) {
    status_ = std::move(status);
    done_.store(true, std::memory_order_release);
  }

  std::atomic<bool> done_{true};
  int peer_ = Status::kNoPeer;
  Status status_;
  Call theirs_;

  // While under way; guarded by the messenger's lock.
  Envelope envelope_;
  std::byte* data_ = nullptr;  // Never written through for a send.
  std::size_t size_ = 0;
  std::size_t assigned_ = 0;  // Bytes that a connection has taken on,
  std::size_t moved_ = 0;     // and those that it is through with.
  bool begun_ = false;
  RequestList* list_ = nullptr;
  Request* previous_ = nullptr;
  Request* next_ = nullptr;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // As in the table of transports (transports.h).
  virtual std::string_view name() const = 0;
  virtual int self() const = 0;
  virtual int size() const = 0;

  // Starts to send `data`. The receiver's buffer must have the same size: another size or call
  // ends both requests with kMismatch. A message of up to 64 KiB is done once it has been handed
  // over, seen by the receiver or not: a mismatch found after that ends the sender's other
  // requests of that group and sequence; where there are none, telling it is up to the receiver.
  // Nothing is handed over to a peer that has 256 MiB of such messages and asks for none of them.
  virtual void send(int peer, const Envelope& envelope, std::span<const std::byte> data,
                    Request& request) = 0;
  virtual void recv(int peer, const Envelope& envelope, std::span<std::byte> data,
                    Request& request) = 0;

  // Makes progress on this thread until all of `requests` are done. Fine when all of them ended
  // well; otherwise the first bad status. When the deadline passes, or one of them fails, the
  // unfinished ones are withdrawn: nobody touches their bytes afterwards, and the connection stays
  // good for other messages. A receive that was withdrawn before anything came can be repeated, and
  // ends with kCancelled when its message was large and has come and gone in between. At the
  // deadline the status names the peers that were waited for.
  virtual Status wait(std::span<Request* const> requests, Deadline deadline) = 0;
  // Makes progress on this thread until one of `requests` is done, or the deadline passes; whether
  // one is. Withdraws nothing.
  virtual bool waitAny(std::span<Request* const> requests, Deadline deadline) = 0;

  // Tells `peers` that `group` is broken, and why: their requests in it end with this status, and
  // so do later ones. This process's own do as well where `peers` has it. Does not wait and never
  // fails: a lost peer needs no telling.
  virtual void abort(std::uint32_t group, const Status& why, std::span<const int> peers) = 0;
  // What the first abort said of `group`; fine when nobody has broken it. Looks for news first.
  virtual Status aborted(std::uint32_t group) = 0;
  // The same of what `peer` has said last.
  virtual Status abortedBy(int peer, std::uint32_t group) = 0;

  // Memory that the processes of this host map together; null where the backend has none.
  virtual SharedMemory* sharedMemory() { return nullptr; }
};

}  // namespace colla::transport
