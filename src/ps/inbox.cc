#include "ps/inbox.h"

#include <algorithm>

namespace colla::ps {

Inbox::~Inbox() { close(); }

void Inbox::open() {
  open_ = true;
  listen();
}

void Inbox::listen() {
  hasHead_ = false;
  payload_.clear();
  transport_.recv(peer_, envelopeOf(channel_, sequence_, kAskStep), bytes_, head_);
}

void Inbox::close() {
  if (!open_) return;
  open_ = false;
  std::vector<transport::Request*> requests = {&head_};
  for (transport::Request& request : payload_) requests.push_back(&request);
  static_cast<void>(transport_.wait(requests, Deadline::at(TimePoint::min())));
}

transport::Request* Inbox::pending() {
  if (!open_) return nullptr;
  if (!hasHead_) return &head_;
  const auto left = std::ranges::find_if(payload_, [](const auto& r) { return !r.done(); });
  return left == payload_.end() ? &head_ : &*left;
}

Result<std::optional<Asked>> Inbox::next(const Targets& targets) {
  const auto fail = [this](Status status) -> Status {
    close();
    return status;
  };
  if (!open_ || !head_.done()) return std::optional<Asked>();
  if (!hasHead_) {
    if (!head_.status().ok()) return fail(head_.status());
    hasHead_ = true;
    ask_ = decodeAsk(bytes_);
    buffer_.clear();
    auto spans = targets(ask_, buffer_);
    if (!spans.ok()) return fail(spans.status());
    for (std::uint32_t step = kPayloadStep; const std::span<std::byte> span : *spans) {
      transport_.recv(peer_, envelopeOf(channel_, sequence_, step++), span,
                      payload_.emplace_back());
    }
  }
  for (const transport::Request& request : payload_) {
    if (!request.done()) return std::optional<Asked>();
    if (!request.status().ok()) return fail(request.status());
  }
  Asked asked{member_, channel_, sequence_++, ask_, std::move(buffer_)};
  listen();
  return std::optional(std::move(asked));
}

}  // namespace colla::ps
