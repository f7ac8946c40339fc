// What the store's server knows, and whom it has to answer: keys and values, those who wait for
// them and those who watch them. No socket, no clock, no thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous/store_protocol.h"

namespace colla::rendezvous {

class StoreState {
 public:
  using ClientId = std::uint64_t;
  // Called with every answer, from apply(). Must not call back.
  using Deliver = std::function<void(ClientId client, std::uint32_t id, Answer answer, Body body)>;

  // Keys and values together may take `maxBytes`.
  explicit StoreState(Deliver deliver, std::size_t maxBytes = std::size_t{1} << 30)
      : deliver_(std::move(deliver)), maxBytes_(maxBytes) {}

  void apply(ClientId client, const Request& request);
  // Forgets whatever it waits for.
  void forget(ClientId client);

  std::size_t waiting() const { return waiting_; }

 private:
  struct Waiter {
    ClientId client;
    std::uint32_t id;
    Operation operation;
    std::int64_t number;
  };
  using Values = std::map<std::string, std::string, std::less<>>;

  void answer(ClientId client, std::uint32_t id, Answer answer, const std::vector<Entry>& entries);
  void answerBody(ClientId client, std::uint32_t id, Answer answer, Body body);
  void answerError(ClientId client, std::uint32_t id, std::string text);
  bool assign(ClientId client, const Request& request, std::string value);
  void erase(Values::iterator it);
  void changed(const Entry& entry);
  void wait(ClientId client, const Request& request);
  std::vector<Entry> below(std::string_view pattern) const;
  std::size_t countBelow(std::string_view pattern) const;
  void addTo(ClientId client, const Request& request);
  void compareSet(ClientId client, const Request& request);

  Deliver deliver_;
  const std::size_t maxBytes_;
  std::size_t bytes_ = 0;
  Values values_;
  // By key or pattern: a change of a/b/c concerns a/b/c, a/b/ and a/.
  std::unordered_map<std::string, std::vector<Waiter>> waiters_;
  std::size_t waiting_ = 0;
};

}  // namespace colla::rendezvous
