// Everything that is under way with one peer, and the rules by which sends, receives and what
// arrives find each other.
//
// A message is matched by group, sequence and step. Whatever has the group and sequence of a
// request but another call, or is the same message with another size, ends the requests of that
// group and sequence with kMismatch on both sides: the two peers have called different things.
//
// Not thread safe: the Messenger's lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "colla/status.h"
#include "transport/bodies.h"
#include "transport/frame_stream.h"
#include "transport/request_list.h"
#include "transport/traffic.h"
#include "transport/transport.h"

namespace colla::transport {

// The same operation of two peers.
inline bool sameOperation(const Envelope& a, const Envelope& b) {
  return a.group == b.group && a.sequence == b.sequence;
}
inline bool sameMessage(const Envelope& a, const Envelope& b) {
  return sameOperation(a, b) && a.step == b.step;
}

// What the links of one Messenger share.
struct LinkContext {
  std::uint32_t epoch = 0;
  std::string self;             // This process's name.
  std::size_t connections = 1;  // Of every pair, once all have been made.
  // Of messages that came before anybody asked for them, per peer: there, reading stops.
  std::size_t unexpectedLimit = std::size_t{256} << 20;

  struct Abort {
    std::uint32_t group;
    Status why;
  };
  std::map<std::uint32_t, Status> broken;  // Groups, and why.
  std::vector<Abort> aborts;               // Heard of, and not in `broken` yet.
  std::uint64_t finished = 0;              // Requests, ever.
  // Streams of lost peers: another thread may still sleep on them.
  std::vector<std::unique_ptr<Stream>> closed;
};

class PeerLink {
 public:
  // `traffic` counts what moves; null where that is nobody's business.
  PeerLink(int peer, std::string name, LinkContext& context, std::unique_ptr<Traffic> traffic)
      : peer_(peer), name_(std::move(name)), context_(context), traffic_(std::move(traffic)) {}
  PeerLink(const PeerLink&) = delete;
  PeerLink& operator=(const PeerLink&) = delete;

  const std::string& name() const { return name_; }
  bool connected() const { return !connections_.empty(); }
  bool lost() const { return !lost_.ok(); }
  std::size_t connections() const { return connections_.size(); }
  bool open(std::size_t connection) const { return !connections_[connection].ended; }
  Stream& stream(std::size_t connection) { return *connections_[connection].stream; }
  // Some connections have ended and others have not: look again soon.
  bool ending() const { return !ending_.ok(); }
  // What the peer says next is of interest now.
  bool wantsRead(std::size_t connection) const {
    return connections_[connection].reader.inBody() || !full() || !moving_.empty();
  }
  // Reading had stopped and can go on, with frames that were read ahead: no stream tells of them.
  bool canGoOn() const { return held_ && !full(); }
  // The stream had no room for all that is to be sent.
  bool wantsWrite(std::size_t connection) const { return !connections_[connection].writer.empty(); }
  bool wantsWrite() const;
  // Some of what was sent could still be lost, if this side left now.
  bool inFlight();

  // One more connection. What was posted before the first one starts now.
  void attach(std::unique_ptr<Stream> stream);

  void send(Request& request);
  void recv(Request& request);
  // Ends a request that is under way, wherever it stands; its bytes are not touched afterwards.
  void end(Request& request, Status status);
  // Ends all there is of a broken group.
  void breakGroup(std::uint32_t group, const Status& why);
  // Ends everything, now and later, except for the receipt of what has already come.
  void fail(Status status);
  // Tells the peer that a group is broken.
  void sendAbort(std::uint32_t group, std::span<const std::byte> why);
  // Why a group is broken, in the peer's own last words; fine when it has said nothing of it.
  Status said(std::uint32_t group) const {
    const auto it = said_.find(group);
    return it == said_.end() ? Status() : it->second;
  }

  // This process has waited for the peer.
  void waited(std::chrono::nanoseconds time) {
    if (traffic_ != nullptr) traffic_->waited(time);
  }

  // Reads and writes as far as the streams go, up to a fair share; whether anything moved.
  bool pump();
  // The writing half of it, for what was just posted.
  void push();

 private:
  // A message that came before its receive, or (when large) the news that it could come.
  struct Message {
    Envelope envelope;
    std::uint64_t total = 0;
    std::vector<std::byte> data;
  };
  struct Connection {
    Connection(std::unique_ptr<Stream> s, std::uint32_t epoch)
        : stream(std::move(s)), reader(epoch) {}
    std::unique_ptr<Stream> stream;
    bool ended = false;  // The peer has closed it, and all that came by it was read.
    FrameReader reader;
    FrameWriter writer;
    Request* filling = nullptr;     // The receive that the body being read belongs to.
    std::list<Message> arriving;    // Or the message, when nobody has asked for it.
    Request* emptying = nullptr;    // The send that the body being written belongs to,
    std::size_t emptyingBytes = 0;  // and how much of it that is.
  };
  // A receive that was withdrawn after the peer was told to send: what still comes is dropped.
  struct Withdrawn {
    Envelope envelope;
    std::uint64_t total;
    std::uint64_t missing;
  };

  // A request whose bytes move beside the stream.
  struct Moving {
    Bodies::Id id;
    Request* request;
  };

  // Some of it, or all, was dropped after its receive had been withdrawn.
  bool cameLate(const Envelope& envelope);
  void cameTooLate(const Envelope& envelope);

  // Incoming frames (peer_link_incoming.cc).
  Status readFrom(Connection& connection, bool& progress);
  Status onHeader(Connection& connection);
  Status onBody(Connection& connection);
  Status onData(Connection& connection, const Frame& frame);
  Status onPart(Connection& connection, const Frame& frame);
  // The bytes of a kPart or kWhole frame go into `target`, or nowhere.
  Status takeBytes(Connection& connection, const Frame& frame, Request* target);
  Status onAnnounce(const Frame& frame);
  Status onReady(const Frame& frame);
  void onRefuse(const Frame& frame);
  // The peer has sent as much as this side keeps for nobody, and nobody here waits for its word.
  // Who does (for a message, or to be told that a large one may come) may find it behind all that.
  bool full() const {
    return unexpectedBytes_ >= context_.unexpectedLimit && receives_.empty() && announced_.empty();
  }
  void newMessage(std::list<Message>& into, const Frame& frame, std::size_t bytes);
  void store(std::list<Message>& message);
  void drop(std::list<Message>::iterator message);
  // Whether `frame` does not fit what this side has called; then both sides' requests end.
  bool conflicts(const Frame& frame);
  // A request that does not fit what the peer is known to have called ends here.
  bool refusedAtOnce(Request& request, bool sending);
  // Tells the peer that a message of `theirs` bytes does not fit one of this side's.
  void refuse(const Envelope& envelope, std::uint64_t size, std::uint64_t theirs, bool receiving);
  // Why the two sides don't fit; `receiving`: this side is to receive the message.
  Status mismatch(bool sameCall, std::uint64_t size, std::uint64_t theirs, bool receiving) const;
  bool endOperation(const Envelope& theirs, const Status& why);

  Status writeTo(std::size_t index, bool& progress);
  bool fillBatch(std::size_t index);
  Status exchange(bool& progress);
  // Bodies beside the stream.
  Bodies* bodies();
  void startBodies(Bodies& bodies, Connection& connection);
  bool endBodies();
  void withdrawBody(Request& request);
  void endConnection(Connection& connection, const Status& why);
  void control(FrameKind kind, const Envelope& envelope, std::uint64_t total);
  Frame frameOf(FrameKind kind, const Request& request) const;
  void finish(Request& request, Status status);
  static Request* find(const RequestList& list, const Envelope& envelope);
  // `visit` may end the request that it is given.
  template <typename Visit>
  void forEachRequest(const Visit& visit) {
    for (RequestList* list : {&receives_, &filling_, &small_, &batched_, &announced_, &parting_}) {
      for (Request* r = list->first(); r != nullptr;) {
        Request* const next = RequestList::next(*r);
        visit(*r);
        r = next;
      }
    }
  }

  const int peer_;
  const std::string name_;
  LinkContext& context_;
  const std::unique_ptr<Traffic> traffic_;
  Status lost_;
  Status ending_;  // Why the first connection ended, while others have not,
  Deadline endingUntil_ = Deadline::never();  // and how long that may last.
  std::vector<Connection> connections_;       // Small messages and control frames use the first.

  std::vector<Moving> moving_;
  std::vector<Bodies::Id> ended_;

  RequestList receives_;   // Nothing has come, or (when large) parts of it.
  RequestList filling_;    // Small, and its bytes are on their way into place.
  RequestList small_;      // Sends that have not begun,
  RequestList batched_;    // and those that were copied into the batch of the first connection.
  RequestList announced_;  // Large sends that the peer is not ready for,
  RequestList parting_;    // and those that it is.

  std::map<std::uint32_t, Status> said_;  // Of broken groups.
  std::list<Message> unexpected_;
  std::list<Message> spare_;
  std::size_t unexpectedBytes_ = 0;
  bool held_ = false;             // Frames were left unread, because the link was full().
  std::vector<Message> readies_;  // Of the peer, for sends that are yet to be posted.
  std::vector<Withdrawn> withdrawn_;
  std::deque<Envelope> late_;  // The last of those that have come and were dropped.
};

}  // namespace colla::transport
