#include "rendezvous/store_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace colla::rendezvous {

void StoreState::answer(ClientId client, std::uint32_t id, Answer answer,
                        const std::vector<Entry>& entries) {
  answerBody(client, id, answer, encodeEntries(entries));
}

void StoreState::answerBody(ClientId client, std::uint32_t id, Answer answer, Body body) {
  if (body->size() > kMaxFrame - kResponseHead) {
    return answerError(client, id, fmt::format("the answer is over {} bytes", kMaxFrame));
  }
  deliver_(client, id, answer, std::move(body));
}

void StoreState::answerError(ClientId client, std::uint32_t id, std::string text) {
  const Entry entry{"", std::move(text)};
  deliver_(client, id, Answer::kError, encodeEntries({&entry, 1}));
}

void StoreState::apply(ClientId client, const Request& request) {
  const auto it = values_.find(request.key);
  switch (request.operation) {
    case Operation::kSet:
      if (assign(client, request, request.value)) answer(client, request.id, Answer::kFound, {});
      return;
    case Operation::kGet:
    case Operation::kWait:
      if (it != values_.end()) {
        return answer(client, request.id, Answer::kFound, {{it->first, it->second}});
      }
      if (request.operation == Operation::kWait) return wait(client, request);
      return answer(client, request.id, Answer::kMissing, {});
    case Operation::kRemove:
      if (it == values_.end()) return answer(client, request.id, Answer::kMissing, {});
      answer(client, request.id, Answer::kFound, {{it->first, it->second}});
      return erase(it);
    case Operation::kAdd:
      return addTo(client, request);
    case Operation::kCompareSet:
      return compareSet(client, request);
    case Operation::kList:
      return answer(client, request.id, Answer::kFound, below(request.key));
    case Operation::kWaitCount:
      if (static_cast<std::int64_t>(countBelow(request.key)) >= request.number) {
        return answer(client, request.id, Answer::kFound, below(request.key));
      }
      return wait(client, request);
    case Operation::kWatch:
      for (const Entry& entry : below(request.key)) {
        answer(client, request.id, Answer::kChanged, {entry});
      }
      answer(client, request.id, Answer::kFound, {});
      return wait(client, request);
    case Operation::kCancel:
      if (const auto found = waiters_.find(request.key); found != waiters_.end()) {
        waiting_ -= std::erase_if(found->second, [&](const Waiter& w) {
          return w.client == client && w.id == request.id;
        });
        if (found->second.empty()) waiters_.erase(found);
      }
      return;
  }
}

void StoreState::forget(ClientId client) {
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    waiting_ -= std::erase_if(it->second, [&](const Waiter& w) { return w.client == client; });
    it = it->second.empty() ? waiters_.erase(it) : std::next(it);
  }
}

void StoreState::wait(ClientId client, const Request& request) {
  waiters_[request.key].push_back({client, request.id, request.operation, request.number});
  ++waiting_;
}

// False, and the client was told, when there is no room.
bool StoreState::assign(ClientId client, const Request& request, std::string value) {
  const auto it = values_.find(request.key);
  const std::size_t before = it == values_.end() ? 0 : request.key.size() + it->second.size();
  const std::size_t after = request.key.size() + value.size();
  if (bytes_ - before + after > maxBytes_) {
    answerError(client, request.id, fmt::format("the store is full ({} bytes)", maxBytes_));
    return false;
  }
  bytes_ = bytes_ - before + after;
  values_.insert_or_assign(it, request.key, value);
  changed({request.key, std::move(value)});
  return true;
}

void StoreState::erase(Values::iterator it) {
  const Entry entry{it->first, std::nullopt};
  bytes_ -= it->first.size() + it->second.size();
  values_.erase(it);
  changed(entry);
}

// Tells everyone whom a change of this key concerns: its own waiters, then those of each pattern
// that it is below. Waits that are over are taken out before anybody is told.
void StoreState::changed(const Entry& entry) {
  const Body change = encodeEntries({&entry, 1});
  for (std::size_t size = entry.key.size(); size != std::string::npos && size > 0;) {
    const std::string pattern = entry.key.substr(0, size);
    if (const auto it = waiters_.find(pattern); it != waiters_.end()) {
      const bool counted = std::ranges::any_of(
          it->second, [](const Waiter& w) { return w.operation == Operation::kWaitCount; });
      const auto count = counted ? static_cast<std::int64_t>(countBelow(pattern)) : std::int64_t{0};
      Body all;
      std::vector<Waiter> staying;
      for (const Waiter& waiter : it->second) {
        if (waiter.operation == Operation::kWait && entry.value) {
          deliver_(waiter.client, waiter.id, Answer::kFound, change);
        } else if (waiter.operation == Operation::kWaitCount && count >= waiter.number) {
          if (all == nullptr) all = encodeEntries(below(pattern));
          answerBody(waiter.client, waiter.id, Answer::kFound, all);
        } else {
          if (waiter.operation == Operation::kWatch) {
            deliver_(waiter.client, waiter.id, Answer::kChanged, change);
          }
          staying.push_back(waiter);
        }
      }
      waiting_ -= it->second.size() - staying.size();
      it->second = std::move(staying);
      if (it->second.empty()) waiters_.erase(it);
    }
    const std::size_t slash = size < 2 ? std::string::npos : entry.key.rfind('/', size - 2);
    size = slash == std::string::npos ? slash : slash + 1;
  }
}

void StoreState::addTo(ClientId client, const Request& request) {
  std::int64_t sum = 0;
  if (const auto it = values_.find(request.key); it != values_.end()) {
    const std::string& text = it->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum);
    if (error != std::errc() || end != text.data() + text.size()) {
      return answerError(client, request.id, fmt::format("{} is not a number", request.key));
    }
  }
  if (__builtin_add_overflow(sum, request.number, &sum)) {
    return answerError(client, request.id, fmt::format("{} would overflow", request.key));
  }
  if (assign(client, request, std::to_string(sum))) {
    answer(client, request.id, Answer::kFound, {{request.key, std::to_string(sum)}});
  }
}

void StoreState::compareSet(ClientId client, const Request& request) {
  const auto it = values_.find(request.key);
  std::optional<std::string> current;
  if (it != values_.end()) current = it->second;
  if (current != request.expected) {
    return answer(client, request.id, Answer::kConflict, {{request.key, std::move(current)}});
  }
  if (assign(client, request, request.value)) answer(client, request.id, Answer::kFound, {});
}

std::vector<Entry> StoreState::below(std::string_view pattern) const {
  std::vector<Entry> entries;
  const bool many = pattern.ends_with('/');
  for (auto it = values_.lower_bound(pattern);
       it != values_.end() && it->first.starts_with(pattern); ++it) {
    if (!many && it->first != pattern) break;
    entries.push_back({it->first, it->second});
  }
  return entries;
}

std::size_t StoreState::countBelow(std::string_view pattern) const {
  std::size_t count = 0;
  for (auto it = values_.lower_bound(pattern);
       it != values_.end() && it->first.starts_with(pattern); ++it) {
    ++count;
  }
  return count;
}

}  // namespace colla::rendezvous
