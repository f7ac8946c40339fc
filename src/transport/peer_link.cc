#include "transport/peer_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace colla::transport {
namespace {

constexpr std::size_t kBatchBytes = 64 << 10;    // Of small messages, before a part's turn.
constexpr std::size_t kControlLimit = 16 << 20;  // Replies that a peer provokes and never reads.
constexpr std::size_t kFewestPartBytes = 64 << 10;
constexpr int kBatchesPerPump = 2;
constexpr std::chrono::seconds kLastParts{1};  // From a peer that has closed one connection.

// Parts of equal size, so that each connection gets its share.
std::uint32_t partBytes(std::size_t size, std::size_t connections) {
  const std::size_t share = (size / connections + 63) / 64 * 64;
  return static_cast<std::uint32_t>(std::clamp(share, kFewestPartBytes, kPartLimit));
}

}  // namespace

bool PeerLink::wantsWrite() const {
  return std::ranges::any_of(connections_,
                             [](const Connection& c) { return !c.ended && !c.writer.empty(); });
}

bool PeerLink::inFlight() {
  return std::ranges::any_of(connections_,
                             [](Connection& c) { return !c.ended && c.stream->inFlight(); });
}

void PeerLink::attach(std::unique_ptr<Stream> stream) {
  connections_.emplace_back(std::move(stream), context_.epoch);
  if (connections_.size() > 1) return;
  for (Request* r = announced_.first(); r != nullptr; r = RequestList::next(*r)) {
    control(FrameKind::kAnnounce, r->envelope_, r->size_);
  }
  for (Request* r = receives_.first(); r != nullptr; r = RequestList::next(*r)) {
    if (r->size_ > kEagerLimit) control(FrameKind::kReady, r->envelope_, r->size_);
  }
}

void PeerLink::send(Request& request) {
  if (lost()) return finish(request, lost_);
  if (refusedAtOnce(request, /*sending=*/true)) return;
  if (request.size_ <= kEagerLimit) return small_.pushBack(request);

  const auto ready = std::ranges::find_if(
      readies_, [&](const Message& m) { return sameMessage(m.envelope, request.envelope_); });
  if (ready != readies_.end()) {
    readies_.erase(ready);
    parting_.pushBack(request);
  } else {
    announced_.pushBack(request);
    if (connected()) control(FrameKind::kAnnounce, request.envelope_, request.size_);
  }
}

void PeerLink::recv(Request& request) {
  if (refusedAtOnce(request, /*sending=*/false)) return;
  const auto message = std::ranges::find_if(
      unexpected_, [&](const Message& m) { return sameMessage(m.envelope, request.envelope_); });
  if (message != unexpected_.end()) {
    const bool small = message->total <= kEagerLimit;
    if (small) std::ranges::copy(message->data, request.data_);
    drop(message);
    if (small) return finish(request, {});
  }
  if (lost()) return finish(request, lost_);
  if (cameLate(request.envelope_)) {
    return finish(request,
                  {StatusCode::kCancelled,
                   fmt::format("a message of {} bytes from {} came when nobody waited for it "
                               "any more: it is lost",
                               request.size_, name_),
                   peer_});
  }

  receives_.pushBack(request);
  if (request.size_ <= kEagerLimit || !connected()) return;
  // The peer may still know of the same receive, which was withdrawn before anything came.
  const auto known = std::ranges::find_if(withdrawn_, [&](const Withdrawn& w) {
    return sameMessage(w.envelope, request.envelope_) && w.missing == request.size_ &&
           w.total == request.size_ && w.envelope.call == request.envelope_.call;
  });
  if (known != withdrawn_.end()) {
    withdrawn_.erase(known);
  } else {
    control(FrameKind::kReady, request.envelope_, request.size_);
  }
}

void PeerLink::end(Request& request, Status status) {
  withdrawBody(request);
  if (request.list_ == &receives_ && request.size_ > kEagerLimit && connected()) {
    for (Connection& c : connections_) {
      if (c.filling != &request) continue;
      c.reader.skip();
      c.filling = nullptr;
    }
    if (const std::size_t missing = request.size_ - request.assigned_; missing > 0) {
      withdrawn_.push_back({request.envelope_, request.size_, missing});
    }
  } else if (request.list_ == &filling_) {
    for (Connection& c : connections_) {
      if (c.filling != &request) continue;
      // The rest comes into a copy, for another receive of the same message.
      c.filling = nullptr;
      newMessage(c.arriving, c.reader.frame(), request.size_);
      std::copy_n(request.data_, c.reader.arrived(), c.arriving.front().data.begin());
      c.reader.into(c.arriving.front().data.data());
    }
  } else if (request.list_ == &parting_) {
    for (Connection& c : connections_) {
      if (c.emptying != &request) continue;
      c.writer.keepBody();
      c.emptying = nullptr;
    }
    if (request.assigned_ == 0) readies_.push_back({request.envelope_, request.size_, {}});
  }
  finish(request, std::move(status));
}

bool PeerLink::cameLate(const Envelope& envelope) {
  if (std::erase_if(late_, [&](const Envelope& e) { return sameMessage(e, envelope); }) > 0) {
    return true;
  }
  return std::ranges::any_of(withdrawn_, [&](const Withdrawn& w) {
    return sameMessage(w.envelope, envelope) && w.missing < w.total;
  });
}

void PeerLink::breakGroup(std::uint32_t group, const Status& why) {
  forEachRequest([&](Request& r) {
    if (r.envelope_.group == group) end(r, why);
  });
  for (auto it = unexpected_.begin(); it != unexpected_.end();) {
    const auto message = it++;
    if (message->envelope.group == group) drop(message);
  }
  std::erase_if(readies_, [&](const Message& m) { return m.envelope.group == group; });
}

void PeerLink::fail(Status status) {
  if (lost()) return;
  // Its last words may have been why a group is broken: there, that counts.
  for (const LinkContext::Abort& abort : context_.aborts) breakGroup(abort.group, abort.why);
  lost_ = std::move(status);
  while (!moving_.empty()) withdrawBody(*moving_.back().request);
  for (Connection& c : connections_) context_.closed.push_back(std::move(c.stream));
  connections_.clear();
  forEachRequest([&](Request& r) { finish(r, lost_); });
  readies_.clear();
  withdrawn_.clear();
  late_.clear();
}

void PeerLink::sendAbort(std::uint32_t group, std::span<const std::byte> why) {
  if (!connected()) return;
  const Frame frame{.kind = FrameKind::kAbort,
                    .epoch = context_.epoch,
                    .envelope = {group, 0, 0, {}},
                    .total = why.size(),
                    .length = static_cast<std::uint32_t>(why.size())};
  connections_.front().writer.add(frame, why);
}

bool PeerLink::pump() {
  bool progress = false;
  const Status status = exchange(progress);
  if (!status.ok()) {
    if (status.code() != StatusCode::kPeerLost) {
      log::warn("closing the connection with {}: {}", name_, status.message());
    }
    fail(Status(StatusCode::kPeerLost, fmt::format("{} is gone ({})", name_, status.message()),
                peer_));
    return true;
  }
  return progress;
}

// Reads come first: they say what there is to write, and by which connection.
//
// A peer that leaves closes one connection after the other, and what it has sent by the last one
// may arrive after the end of the first: it is lost once all have ended, those included that have
// not been taken yet.
Status PeerLink::exchange(bool& progress) {
  progress |= endBodies();
  const bool wasHeld = std::exchange(held_, false);
  for (Connection& c : connections_) {
    if (c.ended) continue;
    const Status status = readFrom(c, progress);
    if (status.code() == StatusCode::kPeerLost) {
      endConnection(c, status);
    } else if (!status.ok()) {
      return status;
    }
  }
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    Connection& c = connections_[i];
    if (c.ended) continue;
    const Status status = writeTo(i, progress);
    if (status.code() == StatusCode::kPeerLost) {
      // It may have said why, or have sent its last messages before: of a peer that is gone, no
      // more is left than a stream holds.
      c.ended = true;
      for (bool more = true; more && readFrom(c, more = false).ok();) {
      }
      endConnection(c, status);
    } else if (!status.ok()) {
      return status;
    }
  }
  // Until this side has read what it left in the other connections, they can't end.
  if (ending() && (wasHeld || held_)) endingUntil_ = Deadline::after(kLastParts);
  const bool over = connections_.size() == context_.connections &&
                    std::ranges::all_of(connections_, &Connection::ended);
  return ending() && (over || endingUntil_.expired()) ? ending_ : Status();
}

void PeerLink::endConnection(Connection& connection, const Status& why) {
  connection.ended = true;
  if (ending()) return;
  ending_ = why;
  endingUntil_ = Deadline::after(kLastParts);
}

void PeerLink::push() {
  bool progress = false;
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i].ended) continue;
    if (!writeTo(i, progress).ok()) {
      pump();  // Reads what is left and fails in the same way.
      return;
    }
  }
}

Status PeerLink::writeTo(std::size_t index, bool& progress) {
  Connection& c = connections_[index];
  for (int batch = 0; batch < kBatchesPerPump; ++batch) {
    if (!c.writer.busy() && !fillBatch(index)) return {};
    COLLA_TRY_ASSIGN(const bool moved, c.writer.flush(*c.stream));
    progress |= moved;
    if (c.writer.busy()) {
      if (c.writer.bytes() < kControlLimit) return {};
      return {StatusCode::kRefused, "it does not read what it is sent"};
    }

    if (Request* r = std::exchange(c.emptying, nullptr)) {
      r->moved_ += c.emptyingBytes;
      if (r->moved_ == r->size_) finish(*r, {});
    }
    if (index == 0) {
      while (Request* r = batched_.first()) finish(*r, {});
    }
  }
  return {};
}

// Control frames are in the batch already. Then small messages, then one part of a large one.
// The first part of a message goes by the first connection: whoever has all the parts has seen
// the announcement that went before it.
bool PeerLink::fillBatch(std::size_t index) {
  Connection& c = connections_[index];
  while (index == 0 && !small_.empty() && c.writer.bytes() < kBatchBytes) {
    Request& r = *small_.first();
    c.writer.add(frameOf(FrameKind::kData, r), {r.data_, r.size_});
    r.begun_ = true;
    batched_.pushBack(r);
  }
  if (Bodies* const b = bodies(); b != nullptr && b->able()) {
    startBodies(*b, c);
    return !c.writer.empty();
  }
  for (Request* r = parting_.first(); r != nullptr; r = RequestList::next(*r)) {
    if (r->assigned_ == r->size_ || (r->assigned_ == 0 && index != 0)) continue;
    Frame frame = frameOf(FrameKind::kPart, *r);
    frame.offset = r->assigned_;
    frame.length = static_cast<std::uint32_t>(
        std::min<std::size_t>(partBytes(r->size_, connections_.size()), r->size_ - r->assigned_));
    c.writer.addInPlace(frame, r->data_ + r->assigned_);
    c.emptying = r;
    c.emptyingBytes = frame.length;
    r->assigned_ += frame.length;
    r->begun_ = true;
    break;
  }
  return !c.writer.empty();
}

Bodies* PeerLink::bodies() { return connected() ? connections_.front().stream->bodies() : nullptr; }

// The frame goes behind the announcement: who has it knows of both.
void PeerLink::startBodies(Bodies& bodies, Connection& connection) {
  for (Request* r = parting_.first(); r != nullptr && bodies.room(); r = RequestList::next(*r)) {
    if (r->assigned_ == r->size_) continue;
    Frame frame = frameOf(FrameKind::kWhole, *r);
    frame.offset = bodies.send({r->data_, r->size_});
    connection.writer.add(frame, {});
    r->assigned_ = r->size_;
    r->begun_ = true;
    moving_.push_back({{frame.offset, /*sent=*/true}, r});
  }
}

bool PeerLink::endBodies() {
  Bodies* const b = moving_.empty() ? nullptr : bodies();
  if (b == nullptr) return false;
  ended_.clear();
  b->poll(ended_);
  for (const Bodies::Id& id : ended_) {
    const auto it = std::ranges::find(moving_, id, &Moving::id);
    if (it == moving_.end()) continue;
    Request& request = *it->request;
    moving_.erase(it);
    finish(request, {});
  }
  return !ended_.empty();
}

void PeerLink::withdrawBody(Request& request) {
  const auto it = std::ranges::find(moving_, &request, &Moving::request);
  if (it == moving_.end()) return;
  const Bodies::Id id = it->id;
  moving_.erase(it);
  if (Bodies* const b = bodies()) b->withdraw(id);
  if (!id.sent) cameTooLate(request.envelope_);
}

void PeerLink::control(FrameKind kind, const Envelope& envelope, std::uint64_t total) {
  connections_.front().writer.add(
      {.kind = kind, .epoch = context_.epoch, .envelope = envelope, .total = total}, {});
}

Frame PeerLink::frameOf(FrameKind kind, const Request& request) const {
  return {.kind = kind,
          .epoch = context_.epoch,
          .envelope = request.envelope_,
          .total = request.size_,
          .length = kind == FrameKind::kData ? static_cast<std::uint32_t>(request.size_) : 0};
}

void PeerLink::finish(Request& request, Status status) {
  if (traffic_ != nullptr && status.ok()) {
    // Sends end well from these two lists alone.
    if (request.list_ == &batched_ || request.list_ == &parting_) {
      traffic_->sent(request.size_);
    } else {
      traffic_->received(request.size_);
    }
  }
  RequestList::remove(request);
  ++context_.finished;
  request.finish(std::move(status));
}

}  // namespace colla::transport
