// The store's client: small values by key, shared by all processes of a job.
//
// Keys are paths ("epoch/0/member/worker/3"). Where a pattern is taken, one that ends with '/'
// means all keys below it.
//
// Every call has a deadline (kTimeout). When the store is gone, every call under way and every
// later one ends at once with kPeerLost: a job cannot outlive its store.
//
// Thread safety: every function may be called from any thread; calls of several threads share one
// connection and are under way together. There is no thread behind it: those who wait read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "colla/status.h"
#include "rendezvous/store_protocol.h"
#include "transport/options.h"

namespace colla::rendezvous {

struct StoreOptions {
  std::string address;  // The server's.
  std::string jobId;
  std::string secret;
  std::string name = "a client";     // For the server's messages: "rank 3 on host b".
  std::string server = "the store";  // Who serves it, for this side's messages: "rank 0".
  transport::Identity identity;      // The same fields as the server's.
};

class StoreConnection;

// Tells of changes. Ends with its destructor. One thread at a time.
class Watch {
 public:
  Watch(Watch&&) = default;
  ~Watch();
  // The next change: first what was there when the watch began, then what came after. An entry
  // without value was removed.
  Result<Entry> next(Deadline deadline);

 private:
  friend class Store;
  Watch(std::shared_ptr<StoreConnection> connection, std::string pattern, std::uint32_t id)
      : connection_(std::move(connection)), pattern_(std::move(pattern)), id_(id) {}
  std::shared_ptr<StoreConnection> connection_;
  std::string pattern_;
  std::uint32_t id_;
};

class Store {
 public:
  // Tries again while nobody listens: the server may start after its clients. kRefused at once
  // when the server does not want us, with its reason.
  static Result<std::unique_ptr<Store>> connect(const StoreOptions& options, Deadline deadline);
  ~Store();

  Status set(const std::string& key, std::string value, Deadline deadline);
  // kNotFound when there is none.
  Result<std::string> get(const std::string& key, Deadline deadline);
  // Waits until there is one.
  Result<std::string> wait(const std::string& key, Deadline deadline);
  // Whether there was one.
  Result<bool> remove(const std::string& key, Deadline deadline);
  // Adds to a number (0 where there is none) and returns the sum.
  Result<std::int64_t> add(const std::string& key, std::int64_t number, Deadline deadline);

  struct Comparison {
    bool set = false;
    std::optional<std::string> current;  // What is there instead, when not set.
  };
  // Sets `value` if the key has `expected` now (none: if there is no such key).
  Result<Comparison> compareSet(const std::string& key, std::optional<std::string> expected,
                                std::string value, Deadline deadline);

  // All keys below `pattern`, sorted.
  Result<std::vector<Entry>> list(const std::string& pattern, Deadline deadline);
  // The same, once there are at least `count` of them.
  Result<std::vector<Entry>> waitCount(const std::string& pattern, std::int64_t count,
                                       Deadline deadline);
  // Does not wait: whatever goes wrong is told by the watch.
  Result<Watch> watch(const std::string& pattern);

  const std::string& address() const;

 private:
  explicit Store(std::shared_ptr<StoreConnection> connection);
  Result<Response> call(Request request, Deadline deadline);
  std::shared_ptr<StoreConnection> connection_;
};

}  // namespace colla::rendezvous
