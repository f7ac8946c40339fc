#include "transport/outbox.h"

namespace colla::transport {

Outbox::~Outbox() { flush(Deadline::at(TimePoint::min())); }

void Outbox::send(int peer, const Envelope& envelope, std::vector<std::byte> bytes) {
  const auto own = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  send(peer, envelope, *own, own);
}

void Outbox::send(int peer, const Envelope& envelope, std::span<const std::byte> bytes,
                  std::shared_ptr<const void> keep) {
  sweep();
  Letter& letter = letters_.emplace_back();
  letter.keep = std::move(keep);
  transport_.send(peer, envelope, bytes, letter.request);
}

void Outbox::sweep() {
  std::erase_if(letters_, [](const Letter& letter) { return letter.request.done(); });
}

void Outbox::flush(Deadline deadline) {
  // One by one: a lost peer must not keep the others from getting theirs.
  for (Letter& letter : letters_) {
    Request* const request = &letter.request;
    static_cast<void>(transport_.wait({&request, 1}, deadline));
  }
  letters_.clear();
}

}  // namespace colla::transport
