// Serves the store: one thread, any number of clients that wait.
//
// It runs inside the launcher, or inside rank 0 of a job that somebody else launched. Clients
// come over a Unix socket ("unix:@name", same user) or TCP (TLS with the job's secret); TCP
// beyond this host needs a secret. Its end is the end of all waits: clients are told at once.
//
// Thread safety: every function may be called from any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "colla/status.h"
#include "transport/options.h"

namespace colla::rendezvous {

struct StoreServerOptions {
  std::string address;  // "unix:@name" or "host:port"; port 0 picks one.
  std::string jobId;
  std::string secret;  // Empty: none.
  std::string name = "the store";
  // What clients must have in common with the server: the same fields, often only `colla`.
  transport::Identity identity;
  std::size_t maxConnections = 16 * 1024;
};

class StoreServer {
 public:
  // Listens from now on.
  static Result<std::unique_ptr<StoreServer>> start(const StoreServerOptions& options);
  // Ends all connections.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  // Where clients connect to.
  const std::string& address() const;
  // How many requests wait for a key (or watch) just now.
  std::size_t waiting() const;

 private:
  class Loop;
  explicit StoreServer(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace colla::rendezvous
