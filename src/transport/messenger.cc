#include "transport/messenger.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/readable.h"
#include "transport/ring_stream.h"
#include "transport/spin.h"

namespace colla::transport {
namespace {

// How long bytes that nobody waits for (an abort) may hold up the end.
constexpr std::chrono::seconds kLastFlush{1};
// On a machine with too much to do, a second passes without anybody moving: bytes that are on their
// way get so many looks as well, within the longer time.
constexpr int kFlightLooks = 300;
constexpr std::chrono::seconds kLastFlight{10};
// Rounds of moving bytes before the leader looks at those that did not move.
constexpr int kRoundsAwake = 16;
constexpr std::chrono::milliseconds kEndingPause{10};  // Between looks at a peer that leaves.
constexpr std::chrono::milliseconds kFlightPause{1};   // Between looks at what is on its way.
constexpr std::size_t kLoopBytes = 256 << 10;

std::vector<std::string> textsOf(const std::vector<Peer>& peers, std::string Peer::*text) {
  std::vector<std::string> texts;
  for (const Peer& peer : peers) texts.push_back(peer.*text);
  return texts;
}

bool allDone(std::span<Request* const> requests) {
  return std::ranges::all_of(requests, [](const Request* r) { return r->done(); });
}
bool anyDone(std::span<Request* const> requests) {
  return std::ranges::any_of(requests, [](const Request* r) { return r->done(); });
}
bool failed(const Request* request) { return request->done() && !request->status().ok(); }
// There is nothing left to wait for.
bool settled(std::span<Request* const> requests) {
  return allDone(requests) || std::ranges::any_of(requests, failed);
}

}  // namespace

class COLLA_THREAD_ATTRIBUTE(scoped_lockable) Messenger::Turn {
 public:
  explicit Turn(Messenger& messenger) COLLA_ACQUIRE(messenger.mutex_) : mutex_(messenger.mutex_) {
    messenger.posting_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    messenger.posting_.fetch_sub(1, std::memory_order_relaxed);
  }
  ~Turn() COLLA_RELEASE() { mutex_.unlock(); }

 private:
  Mutex& mutex_;
};

Messenger::Messenger(const Options& options, std::unique_ptr<Backend> backend)
    : self_(options.self),
      names_(textsOf(options.peers, &Peer::name)),
      hosts_(textsOf(options.peers, &Peer::host)),
      backend_(std::move(backend)),
      links_(options.peers.size()) {
  context_.epoch = options.epoch;
  if (self_ >= 0 && static_cast<std::size_t>(self_) < names_.size()) {
    context_.self = names_[static_cast<std::size_t>(self_)];
  }
  context_.connections =
      backend_->stripes() ? static_cast<std::size_t>(std::max(options.connections, 1)) : 1;
}

Messenger::~Messenger() {
  const Turn turn(*this);
  const Deadline deadline = Deadline::after(kLastFlush);
  const Deadline last = Deadline::after(kLastFlight);
  for (int looks = 0; !deadline.expired() || (looks < kFlightLooks && !last.expired());) {
    pumpAll();
    if (!deadline.expired() &&
        std::ranges::any_of(used_, [](const PeerLink* l) { return l->wantsWrite(); })) {
      sleep(deadline);
    } else if (std::ranges::any_of(used_, &PeerLink::inFlight)) {
      sleep(Deadline::after(kFlightPause));
      ++looks;
    } else {
      break;
    }
  }
  for (PeerLink* l : used_) l->fail({StatusCode::kCancelled, "the transport was closed"});
}

void Messenger::send(int peer, const Envelope& envelope, std::span<const std::byte> data,
                     Request& request) {
  post(Direction::kSend, peer, envelope, const_cast<std::byte*>(data.data()), data.size(), request);
}

void Messenger::recv(int peer, const Envelope& envelope, std::span<std::byte> data,
                     Request& request) {
  post(Direction::kReceive, peer, envelope, data.data(), data.size(), request);
}

void Messenger::post(Direction direction, int peer, const Envelope& envelope, std::byte* data,
                     std::size_t size, Request& request) {
  request.start(peer, envelope, data, size);
  if (peer < 0 || peer >= this->size()) {
    request.finish({StatusCode::kInvalidArgument, fmt::format("there is no peer {}", peer)});
    return;
  }
  const Turn turn(*this);
  if (const auto it = context_.broken.find(envelope.group); it != context_.broken.end()) {
    request.finish(it->second);
    return;
  }

  PeerLink& l = link(peer);
  const std::uint64_t before = context_.finished;
  if (direction == Direction::kSend) {
    l.send(request);
  } else {
    l.recv(request);
  }
  if (peer == self_) {
    while (l.pump()) {
    }
  } else {
    l.push();
  }
  takeAborts();
  unwatched_ |= l.wantsWrite() || l.canGoOn();
  const std::uint64_t own = request.done() ? 1 : 0;
  wakeOthers(/*finished=*/context_.finished - before > own);
}

Status Messenger::wait(std::span<Request* const> requests, Deadline deadline) {
  const TimePoint since = std::chrono::steady_clock::now();
  const auto firstError = [&] {
    const auto it = std::ranges::find_if(requests, failed);
    return it == requests.end() ? Status() : (*it)->status();
  };
  if (allDone(requests)) return firstError();

  const Turn turn(*this);
  const int last = progress(requests, settled, deadline);
  if (last != Status::kNoPeer) {
    links_[static_cast<std::size_t>(last)]->waited(std::chrono::steady_clock::now() - since);
  }
  if (allDone(requests)) return firstError();
  Status status = firstError();
  const bool late = status.ok();
  if (late) status = timeout(requests, since);
  const Status withdrawn =
      late ? status : Status(StatusCode::kCancelled, "another request of the same wait failed");
  for (Request* r : requests) {
    if (!r->done()) links_[static_cast<std::size_t>(r->peer())]->end(*r, withdrawn);
  }
  return status;
}

bool Messenger::waitAny(std::span<Request* const> requests, Deadline deadline) {
  if (anyDone(requests)) return true;
  const TimePoint since = std::chrono::steady_clock::now();
  const Turn turn(*this);
  int waitedFor = progress(requests, anyDone, deadline);
  const auto came = std::ranges::find_if(requests, &Request::done);
  // A background thread waits for whatever comes next: nobody is held up by that.
  if (waitedFor != Status::kNoPeer && !BackgroundThread::isThis()) {
    if (came != requests.end()) waitedFor = (*came)->peer();
    links_[static_cast<std::size_t>(waitedFor)]->waited(std::chrono::steady_clock::now() - since);
  }
  return came != requests.end();
}

int Messenger::progress(std::span<Request* const> requests, Enough enough, Deadline deadline) {
  const std::uint64_t before = context_.finished;
  int pumped = Status::kNoPeer;
  for (const Request* r : requests) {
    if (!r->done() && std::exchange(pumped, r->peer()) != r->peer()) pump(link(r->peer()));
  }
  wakeOthers(context_.finished != before);

  int last = Status::kNoPeer;
  while (!enough(requests) && !deadline.expired()) {
    last = (*std::ranges::find_if(requests, [](const Request* r) { return !r->done(); }))->peer();
    if (leading_) {
      ++followers_;
      changed_.wait_for(mutex_, deadline.remaining());
      --followers_;
      continue;
    }
    leading_ = true;
    lead(deadline);
    leading_ = false;
  }
  // The lead is free, if this thread had it.
  if (!leading_ && followers_ > 0) changed_.notify_all();
  return last;
}

void Messenger::abort(std::uint32_t group, const Status& why, std::span<const int> peers) {
  const std::vector<std::byte> note = encodeAbort(why);
  const Turn turn(*this);
  const std::uint64_t before = context_.finished;
  for (const int peer : peers) {
    if (peer < 0 || peer >= size()) continue;
    if (peer == self_) {
      context_.aborts.push_back({group, why});
      continue;
    }
    PeerLink* const l = links_[static_cast<std::size_t>(peer)].get();
    if (l == nullptr) continue;
    l->sendAbort(group, note);
    l->push();
    unwatched_ |= l->wantsWrite();
  }
  takeAborts();
  wakeOthers(context_.finished != before);
}

Status Messenger::aborted(std::uint32_t group) {
  const Turn turn(*this);
  const std::uint64_t before = context_.finished;
  pumpAll();
  wakeOthers(context_.finished != before);
  const auto it = context_.broken.find(group);
  return it == context_.broken.end() ? Status() : it->second;
}

Status Messenger::abortedBy(int peer, std::uint32_t group) {
  static_cast<void>(aborted(group));
  const Turn turn(*this);
  const PeerLink* const l = links_[static_cast<std::size_t>(peer)].get();
  return l == nullptr ? Status() : l->said(group);
}

PeerLink& Messenger::link(int peer) {
  if (const auto& known = links_[static_cast<std::size_t>(peer)]) return *known;
  PeerLink& l = addLink(peer);
  if (peer == self_) {
    l.attach(makeLoopStream(kLoopBytes));
    return l;
  }
  if (peer < self_) {
    backend_->connect(peer);
  } else {
    backend_->expect(peer);
  }
  unwatched_ = true;
  takeArrivals();
  return l;
}

PeerLink& Messenger::addLink(int peer) {
  const auto index = static_cast<std::size_t>(peer);
  // What a process sends to itself is not traffic.
  auto traffic = peer == self_
                     ? nullptr
                     : std::make_unique<Traffic>(backend_->name(), names_[index], hosts_[index]);
  links_[index] = std::make_unique<PeerLink>(peer, names_[index], context_, std::move(traffic));
  used_.push_back(links_[index].get());
  return *links_[index];
}

void Messenger::pump(PeerLink& link) {
  if (link.pump()) setMoving(link);
  takeAborts();
  if (!sleeping_) context_.closed.clear();
}

void Messenger::setMoving(PeerLink& link) {
  if (std::ranges::find(moving_, &link) == moving_.end()) moving_.push_back(&link);
}

void Messenger::pumpAll() {
  takeArrivals();
  for (std::size_t i = 0; i < used_.size(); ++i) pump(*used_[i]);
}

void Messenger::takeArrivals() {
  backend_->poll(arrivals_);
  for (Backend::Arrival& arrival : arrivals_) {
    PeerLink* l = links_[static_cast<std::size_t>(arrival.peer)].get();
    if (l == nullptr) l = &addLink(arrival.peer);
    if (arrival.stream == nullptr) {
      // Of a connected peer the streams tell, once everything that came has been read.
      if (!l->connected()) l->fail(std::move(arrival.status));
    } else if (l->connections() == context_.connections) {
      log::warn("refusing one more connection of {}", l->name());
    } else if (!l->lost()) {
      l->attach(std::move(arrival.stream));
      unwatched_ = true;
      pump(*l);
    }
  }
  arrivals_.clear();
}

void Messenger::takeAborts() {
  while (!context_.aborts.empty()) {
    const LinkContext::Abort abort = std::move(context_.aborts.back());
    context_.aborts.pop_back();
    if (!context_.broken.try_emplace(abort.group, abort.why).second) continue;
    for (PeerLink* l : used_) {
      l->breakGroup(abort.group, abort.why);
      unwatched_ |= l->canGoOn();
    }
  }
}

// One round: sleep until something can move, then move it.
void Messenger::lead(Deadline until) {
  const std::uint64_t before = context_.finished;
  if (moving_.empty()) {
    sleep(until);
  } else if (++roundsAwake_ % kRoundsAwake == 0) {
    sleep(Deadline::at(TimePoint::min()));
  } else if (posting_.load(std::memory_order_relaxed) > 0) {
    mutex_.unlock();
    std::this_thread::yield();
    mutex_.lock();
  }
  pumping_.clear();
  pumping_.swap(moving_);
  for (PeerLink* l : pumping_) pump(*l);
  if (context_.finished != before && followers_ > 0) changed_.notify_all();
}

// Leaves in moving_ what can move afterwards. The streams are alive until the end: closed ones are
// kept in the context.
void Messenger::sleep(Deadline until) {
  watches_.clear();
  watched_.clear();
  for (PeerLink* l : used_) {
    if (l->connected() && l->ending()) {
      until = until.earlier(Deadline::after(kEndingPause));
      setMoving(*l);
    }
    if (l->canGoOn()) {
      until = Deadline::at(TimePoint::min());
      setMoving(*l);
    }
    for (std::size_t c = 0; c < l->connections(); ++c) {
      const bool read = l->wantsRead(c);
      const bool write = l->wantsWrite(c);
      if (!l->open(c) || !(read || write)) continue;
      watches_.push_back({&l->stream(c), read, write, false});
      watched_.push_back(l);
    }
  }
  unwatched_ = false;
  sleeping_ = true;
  mutex_.unlock();
  backend_->sleep(watches_, until);
  mutex_.lock();
  sleeping_ = false;
  context_.closed.clear();
  for (std::size_t i = 0; i < watches_.size(); ++i) {
    if (watches_[i].ready) setMoving(*watched_[i]);
  }
  takeArrivals();
}

// After this thread has moved something, and perhaps `finished` others' requests: the leader must
// not sleep through what is there to do or to watch.
void Messenger::wakeOthers(bool finished) {
  if (sleeping_ && (finished || unwatched_ || !moving_.empty())) backend_->wake();
  if (finished && followers_ > 0) changed_.notify_all();
}

Status Messenger::timeout(std::span<Request* const> requests, TimePoint since) const {
  std::vector<int> peers;
  for (const Request* r : requests) {
    if (!r->done() && std::ranges::find(peers, r->peer()) == peers.end())
      peers.push_back(r->peer());
  }
  std::string list;
  for (const int peer : peers) {
    list += (list.empty() ? "" : ", ") + names_[static_cast<std::size_t>(peer)];
  }
  const auto waited = std::chrono::steady_clock::now() - since;
  return {StatusCode::kTimeout, fmt::format("{} did not answer for {}", list, inSeconds(waited)),
          peers.front()};
}

}  // namespace colla::transport
