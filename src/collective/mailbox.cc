#include "collective/mailbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "transport/spin.h"

namespace colla::collective {
namespace {

using namespace std::chrono_literals;
using transport::Request;

// What the messages of a pair are numbered for, each on its own.
enum Channel : std::uint32_t { kHeaders, kPayloads, kWakes };

constexpr auto kLongSleep = 1h;

}  // namespace

Mailbox::Mailbox(transport::Transport& transport, std::uint32_t group,
                 std::vector<std::string> names)
    : transport_(transport),
      group_(group),
      names_(std::move(names)),
      sent_(names_.size()),
      inboxes_(names_.size()) {}

void Mailbox::close() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    wake();
  }
  if (thread_.joinable()) thread_.join();
}

transport::Envelope Mailbox::envelope(std::uint32_t channel, std::uint32_t number) const {
  return {.group = group_, .sequence = channel, .step = number, .call = {}};
}

Mailbox::Ticket Mailbox::send(int to, std::uint32_t tag, std::span<const std::byte> data,
                              Done done) {
  Ticket ticket = 0;
  Done callback;
  Status status;
  {
    const MutexLock lock(mutex_);
    ticket = ++lastTicket_;
    Outgoing& message = outgoing_.emplace_back();
    message.ticket = ticket;
    message.to = to;
    message.header = {data.size(), tag};
    message.done = std::move(done);
    const std::uint32_t number = sent_[static_cast<std::size_t>(to)]++;
    transport_.send(to, envelope(kHeaders, number), std::as_bytes(std::span(&message.header, 1)),
                    message.announcement);
    if (!data.empty()) transport_.send(to, envelope(kPayloads, number), data, message.payload);
    if (!message.announcement.done() || !message.payload.done()) {
      wake();
      return ticket;
    }
    // It is small, and on its way.
    status = message.announcement.status().ok() ? message.payload.status()
                                                : message.announcement.status();
    callback = std::move(message.done);
    outgoing_.pop_back();
  }
  callback(status, to);
  return ticket;
}

Mailbox::Ticket Mailbox::recv(int from, std::uint32_t tag, std::span<std::byte> data, Done done) {
  const MutexLock lock(mutex_);
  Incoming& message = incoming_.emplace_back();
  message.ticket = ++lastTicket_;
  message.from = from;
  message.tag = tag;
  message.data = data;
  message.done = std::move(done);
  const Ticket ticket = message.ticket;
  wake();
  return ticket;
}

void Mailbox::giveUp(Ticket ticket, Status why) {
  const MutexLock lock(mutex_);
  givenUp_.push_back({ticket, std::move(why)});
  wake();
}

void Mailbox::wake() {
  news_ = true;
  if (!thread_.joinable()) {
    if (!closing_) thread_ = std::thread([this] { runOnThread(); });
  } else if (!inTransport_) {
    changed_.notify_all();
  } else if (!std::exchange(wakeSent_, true)) {
    transport_.send(transport_.self(), envelope(kWakes, wakes_), {}, wakeSend_);
  }
}

void Mailbox::runOnThread() {
  const transport::BackgroundThread behindTheCaller;
  mutex_.lock();
  while (true) {
    news_ = false;
    Finished finished;
    takeGivenUp(finished);
    if (closing_) cancelAll(finished);
    takeHeaders();
    match();
    listen();
    takeDone(finished);
    if (!finished.empty()) {
      mutex_.unlock();
      for (const auto& callback : finished) callback();
      finished.clear();
      mutex_.lock();
      continue;
    }
    if (closing_) break;
    std::vector<Request*> requests = pending();
    if (news_) continue;
    if (requests.empty()) {
      while (!news_) changed_.wait(mutex_);
      continue;
    }
    // Only this thread frees requests, so those in the list outlive the wait.
    if (!std::exchange(wakePosted_, true)) {
      transport_.recv(transport_.self(), envelope(kWakes, wakes_), {}, wakeRecv_);
    }
    requests.push_back(&wakeRecv_);
    inTransport_ = true;
    mutex_.unlock();
    transport_.waitAny(requests, Deadline::after(kLongSleep));
    mutex_.lock();
    inTransport_ = false;
    if (std::exchange(wakeSent_, false)) {
      Request* const both[] = {&wakeSend_, &wakeRecv_};
      static_cast<void>(transport_.wait(both, Deadline::after(kLongSleep)));
      wakePosted_ = false;
      ++wakes_;
    }
  }
  mutex_.unlock();
}

// Whatever was announced is put down; the next header is listened for by listen().
void Mailbox::takeHeaders() {
  for (Inbox& inbox : inboxes_) {
    if (!inbox.listening || !inbox.request.done()) continue;
    inbox.listening = false;
    if (inbox.request.status().ok()) {
      inbox.waiting.push_back({inbox.header, inbox.next++, ++arrivals_});
    } else {
      inbox.lost = inbox.request.status();
    }
  }
}

void Mailbox::match() {
  for (Incoming& incoming : incoming_) {
    if (incoming.source == kAnySource) matches(incoming);
  }
}

// The first message with its tag from the wanted peer, or the earliest of all.
bool Mailbox::matches(Incoming& incoming) {
  const auto fits = [&](const Announced& announced) {
    return announced.header.tag == incoming.tag;
  };
  int source = kAnySource;
  std::deque<Announced>::iterator found;
  for (int peer = 0; peer < static_cast<int>(inboxes_.size()); ++peer) {
    if (incoming.from != kAnySource && incoming.from != peer) continue;
    auto& waiting = inboxes_[static_cast<std::size_t>(peer)].waiting;
    const auto it = std::ranges::find_if(waiting, fits);
    if (it == waiting.end()) continue;
    if (source != kAnySource && found->arrival < it->arrival) continue;
    source = peer;
    found = it;
  }
  if (source == kAnySource) return false;
  const Announced announced = *found;
  inboxes_[static_cast<std::size_t>(source)].waiting.erase(found);
  accept(incoming, source, announced);
  return true;
}

void Mailbox::accept(Incoming& incoming, int source, const Announced& announced) {
  incoming.source = source;
  const std::size_t bytes = announced.header.bytes;
  std::span<std::byte> into = incoming.data;
  if (bytes > into.size()) {
    incoming.refusal = {
        StatusCode::kMismatch,
        fmt::format("{} sent {} bytes with tag {}, but there is room for {}",
                    names_[static_cast<std::size_t>(source)], bytes, incoming.tag, into.size()),
        source};
    // Taken all the same: its sender waits for that.
    incoming.dropped = std::make_unique_for_overwrite<std::byte[]>(bytes);
    into = {incoming.dropped.get(), bytes};
  }
  if (bytes > 0) {
    transport_.recv(source, envelope(kPayloads, announced.number), into.first(bytes),
                    incoming.payload);
  }
}

void Mailbox::listen() {
  for (int peer = 0; peer < static_cast<int>(inboxes_.size()); ++peer) {
    Inbox& inbox = inboxes_[static_cast<std::size_t>(peer)];
    const auto wanted = [&](const Incoming& incoming) {
      return incoming.source == kAnySource &&
             (incoming.from == peer || (incoming.from == kAnySource && peer != transport_.self()));
    };
    if (inbox.listening || !inbox.lost.ok() || std::ranges::none_of(incoming_, wanted)) continue;
    inbox.listening = true;
    transport_.recv(peer, envelope(kHeaders, inbox.next),
                    std::as_writable_bytes(std::span(&inbox.header, 1)), inbox.request);
  }
}

// Why nothing can come any more: whom it should come from is gone.
Status Mailbox::hopeless(const Incoming& incoming) const {
  if (incoming.source != kAnySource) return {};
  if (incoming.from != kAnySource) return inboxes_[static_cast<std::size_t>(incoming.from)].lost;
  Status last;
  for (int peer = 0; peer < static_cast<int>(inboxes_.size()); ++peer) {
    if (peer == transport_.self()) continue;
    last = inboxes_[static_cast<std::size_t>(peer)].lost;
    if (last.ok()) return {};
  }
  return last;
}

void Mailbox::takeDone(Finished& finished) {
  for (auto it = outgoing_.begin(); it != outgoing_.end();) {
    if (!it->announcement.done() || !it->payload.done()) {
      ++it;
      continue;
    }
    const Status status =
        it->announcement.status().ok() ? it->payload.status() : it->announcement.status();
    finished.push_back([done = std::move(it->done), status, to = it->to] { done(status, to); });
    it = outgoing_.erase(it);
  }
  for (auto it = incoming_.begin(); it != incoming_.end();) {
    Status status = hopeless(*it);
    if (status.ok() && (it->source == kAnySource || !it->payload.done())) {
      ++it;
      continue;
    }
    if (status.ok()) status = it->payload.status().ok() ? it->refusal : it->payload.status();
    finished.push_back(
        [done = std::move(it->done), status, source = it->source] { done(status, source); });
    it = incoming_.erase(it);
  }
}

void Mailbox::takeGivenUp(Finished& finished) {
  for (GivenUp& given : std::exchange(givenUp_, {})) {
    const auto isIt = [&](const auto& message) { return message.ticket == given.ticket; };
    if (const auto it = std::ranges::find_if(outgoing_, isIt); it != outgoing_.end()) {
      Request* const requests[] = {&it->announcement, &it->payload};
      withdraw(requests);
      finished.push_back(
          [done = std::move(it->done), why = given.why, to = it->to] { done(why, to); });
      outgoing_.erase(it);
    } else if (const auto in = std::ranges::find_if(incoming_, isIt); in != incoming_.end()) {
      Request* const requests[] = {&in->payload};
      withdraw(requests);
      finished.push_back([done = std::move(in->done), why = given.why, source = in->source] {
        done(why, source);
      });
      incoming_.erase(in);
    }
  }
}

std::vector<Request*> Mailbox::pending() {
  std::vector<Request*> requests;
  bool ended = false;
  const auto add = [&](std::initializer_list<Request*> parts) {
    const std::size_t before = requests.size();
    std::ranges::copy_if(parts, std::back_inserter(requests),
                         [](const Request* request) { return !request->done(); });
    ended |= requests.size() == before;
  };
  for (Outgoing& message : outgoing_) add({&message.announcement, &message.payload});
  for (Incoming& message : incoming_) {
    if (message.source != kAnySource) add({&message.payload});
  }
  for (Inbox& inbox : inboxes_) {
    if (inbox.listening) add({&inbox.request});
  }
  news_ |= ended;
  return requests;
}

void Mailbox::withdraw(std::span<Request* const> requests) {
  static_cast<void>(transport_.wait(requests, Deadline::at(TimePoint{})));
}

void Mailbox::cancelAll(Finished& finished) {
  std::vector<Request*> requests = pending();
  if (wakePosted_) requests.push_back(&wakeRecv_);
  withdraw(requests);
  for (Inbox& inbox : inboxes_) inbox.listening = false;
  const Status why(StatusCode::kCancelled, "the process group was shut down");
  for (Outgoing& message : outgoing_) {
    finished.push_back([done = std::move(message.done), why, to = message.to] { done(why, to); });
  }
  for (Incoming& message : incoming_) {
    finished.push_back([done = std::move(message.done), why] { done(why, kAnySource); });
  }
  outgoing_.clear();
  incoming_.clear();
}

}  // namespace colla::collective
