// The half of PeerLink that decides what to do with what the peer sends. Nothing in a frame is
// trusted beyond what decode() has checked.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "transport/peer_link.h"

namespace colla::transport {
namespace {

constexpr int kFramesPerPump = 32;
constexpr std::size_t kMessageCost = 128;  // Of keeping a message, beyond its bytes.
constexpr std::size_t kSpareMessages = 4;
constexpr std::size_t kLateMessages = 256;
constexpr std::size_t kTableLimit = 64 << 10;  // Entries that a peer can make this side keep.

}  // namespace

Status PeerLink::readFrom(Connection& connection, bool& progress) {
  for (int frames = 0; frames < kFramesPerPump;) {
    if (full() && !connection.reader.inBody() && !connection.ended) {
      held_ = true;
      return {};
    }
    const std::size_t before = connection.reader.arrived();
    COLLA_TRY_ASSIGN(const auto event, connection.reader.next(*connection.stream));
    switch (event) {
      case FrameReader::Event::kNothing:
        progress |= connection.reader.arrived() != before;
        return {};
      case FrameReader::Event::kHeader:
        COLLA_TRY(onHeader(connection));
        break;
      case FrameReader::Event::kBody:
        COLLA_TRY(onBody(connection));
        ++frames;
        break;
    }
    progress = true;
  }
  return {};
}

Status PeerLink::onHeader(Connection& connection) {
  const Frame& frame = connection.reader.frame();
  const bool broken = context_.broken.contains(frame.envelope.group);
  switch (frame.kind) {
    case FrameKind::kData:
      if (!broken) return onData(connection, frame);
      connection.reader.skip();
      return {};
    case FrameKind::kAnnounce:
      return broken ? Status() : onAnnounce(frame);
    case FrameKind::kReady:
      return broken ? Status() : onReady(frame);
    case FrameKind::kPart:
    case FrameKind::kWhole:
      return onPart(connection, frame);
    case FrameKind::kRefuse:
      if (!broken) onRefuse(frame);
      return {};
    case FrameKind::kAbort:
      newMessage(connection.arriving, frame, frame.length);
      connection.reader.into(connection.arriving.front().data.data());
      return {};
  }
  return {StatusCode::kInternal, "a frame of unknown kind"};
}

Status PeerLink::onData(Connection& connection, const Frame& frame) {
  if (conflicts(frame)) {
    connection.reader.skip();
  } else if (Request* r = find(receives_, frame.envelope)) {
    filling_.pushBack(*r);
    connection.filling = r;
    connection.reader.into(r->data_);
  } else {
    newMessage(connection.arriving, frame, frame.length);
    connection.reader.into(connection.arriving.front().data.data());
  }
  return {};
}

Status PeerLink::onPart(Connection& connection, const Frame& frame) {
  const std::uint64_t size = frame.kind == FrameKind::kWhole ? frame.total : frame.length;
  const auto gone = std::ranges::find_if(withdrawn_, [&](const Withdrawn& w) {
    return sameMessage(w.envelope, frame.envelope) && w.total == frame.total &&
           w.envelope.call == frame.envelope.call;
  });
  if (gone != withdrawn_.end()) {
    COLLA_TRY(takeBytes(connection, frame, nullptr));
    if (size > gone->missing) return {StatusCode::kRefused, "it sent a part twice"};
    gone->missing -= size;
    if (gone->missing > 0) return {};
    withdrawn_.erase(gone);
    cameTooLate(frame.envelope);
    const auto announcement = std::ranges::find_if(
        unexpected_, [&](const Message& m) { return sameMessage(m.envelope, frame.envelope); });
    if (announcement != unexpected_.end()) drop(announcement);
    return {};
  }

  Request* r = find(receives_, frame.envelope);
  if (r == nullptr || r->size_ != frame.total || r->envelope_.call != frame.envelope.call) {
    return {StatusCode::kRefused, "it sent a part of a message that nobody is ready for"};
  }
  if (size > r->size_ - r->assigned_) return {StatusCode::kRefused, "it sent a part twice"};
  r->assigned_ += size;
  r->begun_ = true;
  return takeBytes(connection, frame, r);
}

Status PeerLink::takeBytes(Connection& connection, const Frame& frame, Request* target) {
  if (frame.kind == FrameKind::kPart) {
    connection.filling = target;
    if (target == nullptr) {
      connection.reader.skip();
    } else {
      connection.reader.into(target->data_ + frame.offset);
    }
    return {};
  }
  Bodies* const b = bodies();
  if (b == nullptr) return {StatusCode::kRefused, "it sent a message beside a stream that can't"};
  if (target == nullptr) {
    b->refuse(frame.offset);
  } else {
    moving_.push_back({{frame.offset, /*sent=*/false}, target});
    b->receive(frame.offset, {target->data_, target->size_});
  }
  return {};
}

void PeerLink::cameTooLate(const Envelope& envelope) {
  late_.push_back(envelope);
  if (late_.size() > kLateMessages) late_.pop_front();
}

Status PeerLink::onAnnounce(const Frame& frame) {
  if (conflicts(frame) || find(receives_, frame.envelope) != nullptr) return {};
  const auto known = std::ranges::find_if(
      unexpected_, [&](const Message& m) { return sameMessage(m.envelope, frame.envelope); });
  if (known != unexpected_.end()) drop(known);  // A send that was withdrawn and comes again.
  std::list<Message> message;
  newMessage(message, frame, 0);
  store(message);
  return {};
}

Status PeerLink::onReady(const Frame& frame) {
  if (conflicts(frame)) return {};
  if (Request* r = find(announced_, frame.envelope)) {
    parting_.pushBack(*r);
    return {};
  }
  std::erase_if(readies_,
                [&](const Message& m) { return sameMessage(m.envelope, frame.envelope); });
  if (readies_.size() >= kTableLimit) return {StatusCode::kRefused, "it is ready for too much"};
  readies_.push_back({frame.envelope, frame.total, {}});
  return {};
}

void PeerLink::onRefuse(const Frame& frame) {
  bool sameCall = false;
  forEachRequest([&](const Request& r) {
    sameCall |=
        sameOperation(r.envelope_, frame.envelope) && r.envelope_.call == frame.envelope.call;
  });
  const Status why = mismatch(sameCall, frame.offset, frame.total, !frame.receiving);
  std::erase_if(readies_,
                [&](const Message& m) { return sameOperation(m.envelope, frame.envelope); });
  // What was refused may have been done already: then the receiver's abort, if it sends one, tells.
  endOperation(frame.envelope, why);
}

Status PeerLink::onBody(Connection& connection) {
  const Frame& frame = connection.reader.frame();
  Request* const filled = std::exchange(connection.filling, nullptr);
  if (filled != nullptr) {
    filled->moved_ += frame.length;
    if (filled->moved_ == filled->size_) finish(*filled, {});
    return {};
  }
  if (connection.arriving.empty()) return {};  // It was skipped.

  if (frame.kind == FrameKind::kAbort) {
    const std::optional<Status> why = decodeAbort(connection.arriving.front().data);
    store(connection.arriving);
    drop(std::prev(unexpected_.end()));
    if (!why) return {StatusCode::kRefused, "it sent an abort without a reason"};
    if (context_.broken.size() + context_.aborts.size() + said_.size() >= kTableLimit) {
      return {StatusCode::kRefused, "it broke too many groups"};
    }
    said_.insert_or_assign(frame.envelope.group, *why);
    context_.aborts.push_back({frame.envelope.group, *why});
    return {};
  }

  store(connection.arriving);
  const auto message = std::prev(unexpected_.end());
  // Its receive may have been posted while it came.
  if (conflicts(frame)) {
    drop(message);
  } else if (Request* r = find(receives_, frame.envelope)) {
    std::ranges::copy(message->data, r->data_);
    drop(message);
    finish(*r, {});
  }
  return {};
}

bool PeerLink::conflicts(const Frame& frame) {
  const bool toSends = frame.kind == FrameKind::kReady;
  const Request* wrong = nullptr;
  forEachRequest([&](const Request& r) {
    if (wrong != nullptr || !sameOperation(r.envelope_, frame.envelope)) return;
    const bool receiving = r.list_ == &receives_ || r.list_ == &filling_;
    const bool same = receiving != toSends && r.envelope_.step == frame.envelope.step;
    if (r.envelope_.call != frame.envelope.call || (same && r.size_ != frame.total)) wrong = &r;
  });
  if (wrong == nullptr) return false;
  const bool sameCall = wrong->envelope_.call == frame.envelope.call;
  refuse(wrong->envelope_, wrong->size_, frame.total, !toSends);
  endOperation(frame.envelope, mismatch(sameCall, wrong->size_, frame.total, !toSends));
  return true;
}

bool PeerLink::refusedAtOnce(Request& request, bool sending) {
  const auto fits = [&](const Message& m, bool sameDirection) {
    if (!sameOperation(m.envelope, request.envelope_)) return true;
    const bool same = sameDirection && m.envelope.step == request.envelope_.step;
    return m.envelope.call == request.envelope_.call && (!same || m.total == request.size_);
  };
  const Message* wrong = nullptr;
  for (const Message& m : unexpected_) {
    if (!fits(m, !sending)) wrong = &m;
  }
  for (const Message& m : readies_) {
    if (!fits(m, sending)) wrong = &m;
  }
  if (wrong == nullptr) return false;
  if (connected()) refuse(request.envelope_, request.size_, wrong->total, !sending);
  request.theirs_ = wrong->envelope.call;
  const bool sameCall = request.envelope_.call == wrong->envelope.call;
  finish(request, mismatch(sameCall, request.size_, wrong->total, !sending));
  return true;
}

void PeerLink::refuse(const Envelope& envelope, std::uint64_t size, std::uint64_t theirs,
                      bool receiving) {
  connections_.front().writer.add({.kind = FrameKind::kRefuse,
                                   .epoch = context_.epoch,
                                   .envelope = envelope,
                                   .total = size,
                                   .offset = theirs,
                                   .receiving = receiving},
                                  {});
}

Status PeerLink::mismatch(bool sameCall, std::uint64_t size, std::uint64_t theirs,
                          bool receiving) const {
  if (!sameCall) {
    return {StatusCode::kMismatch, fmt::format("{} is in another call at this point", name_),
            peer_};
  }
  return {StatusCode::kMismatch,
          receiving ? fmt::format("{} sends {} bytes to {}, which expects {}", name_, theirs,
                                  context_.self, size)
                    : fmt::format("{} sends {} bytes to {}, which expects {}", context_.self, size,
                                  name_, theirs),
          peer_};
}

bool PeerLink::endOperation(const Envelope& theirs, const Status& why) {
  bool any = false;
  forEachRequest([&](Request& r) {
    if (!sameOperation(r.envelope_, theirs)) return;
    any = true;
    r.theirs_ = theirs.call;
    end(r, why);
  });
  return any;
}

Request* PeerLink::find(const RequestList& list, const Envelope& envelope) {
  Request* r = list.first();
  while (r != nullptr && !sameMessage(r->envelope_, envelope)) r = RequestList::next(*r);
  return r;
}

void PeerLink::newMessage(std::list<Message>& into, const Frame& frame, std::size_t bytes) {
  if (spare_.empty()) spare_.emplace_back();
  into.splice(into.end(), spare_, spare_.begin());
  Message& message = into.back();
  message.envelope = frame.envelope;
  message.total = frame.total;
  message.data.resize(bytes);
  unexpectedBytes_ += bytes + kMessageCost;
}

void PeerLink::store(std::list<Message>& message) {
  unexpected_.splice(unexpected_.end(), message);
}

void PeerLink::drop(std::list<Message>::iterator message) {
  unexpectedBytes_ -= message->data.size() + kMessageCost;
  spare_.splice(spare_.end(), unexpected_, message);
  if (spare_.size() > kSpareMessages) spare_.pop_front();
}

}  // namespace colla::transport
