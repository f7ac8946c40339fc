// A parameter server: holds its part of the model, takes gradients, hands out parameters.
//
// Four parts make it. The ServerFront turns messages into asks and answers into messages. Gradients
// keeps what workers have brought, checked. The Coordinator, on the first server alone, decides
// what all servers do. The Holding's Shard carries it out. The Server passes things on between
// them: an ask becomes an event for the coordinator, its orders go to every server, and each
// carries them out.
//
// One thread sleeps until a worker or another server says something, and never waits for one of
// them in particular. It shares what there is to compute with a team, block by block. The server
// reads a worker's gradients where they lie in memory that the worker shares, and writes parameters
// into the worker's memory; between hosts both travel as messages.
//
// Not thread safe: run() is the whole of its life.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "ps/coordinator.h"
#include "ps/front.h"
#include "ps/gradients.h"
#include "ps/holding.h"
#include "ps/metrics.h"

namespace colla::ps {

struct ServerOptions {
  transport::Transport* transport = nullptr;
  int rank = 0;  // Among the servers.
  int servers = 1;
  int workers = 1;
  int recorder = 0;                // The worker that reads snapshots.
  std::vector<std::string> names;  // Of all peers of the transport, for messages.
  // The transport's numbers of the workers, then of the servers: those that are in this epoch.
  // Empty: 0, 1, 2, …
  std::vector<int> peers = {};
  std::chrono::milliseconds timeout{300'000};  // For a step that waits for a worker.
  int threads = 1;                             // To compute with; bits don't depend on it.
  std::size_t worthSharing = Team::kWorthSharing;
  // How many servers this process has been before (again()). What they left unread of each other is
  // not for this one.
  std::uint32_t life = 0;
};

class Server {
 public:
  // `kept`: what the server of the epoch before gave back, if anything. Workers that declare the
  // same model go on with it; for others it is dropped.
  explicit Server(ServerOptions options, std::unique_ptr<Holding> kept = nullptr);
  ~Server();

  // Serves until every worker has left. An error if the job could not go on.
  Status run();
  // After run(): the workers said that they will be back, with a new declaration.
  bool again() const { return again_; }
  // After run(): they will be back in the next epoch, since they left with leaveEpoch().
  bool epochIsOver() const { return keeps_; }
  // After run(): what the next epoch goes on with; null if there is none, or nothing to go on with.
  std::unique_ptr<Holding> takeKept();

 private:
  struct Worker {
    bool gone = false;
    std::optional<Asked> waits = {};  // For parameters.
  };
  // Who gets the parameters, and how.
  struct Handout {
    std::vector<std::byte*> areas = {};  // Memory of workers on this host.
    // The one copy of own blocks that all other workers are sent.
    std::shared_ptr<std::map<int, AlignedBytes>> parcel = {};
  };

  bool first() const { return options_.rank == 0; }
  bool declared() const { return gradients_ != nullptr; }
  Answer head() const { return {.step = now_.step}; }

  // server_asks.cc: what each ask means.
  void onAsk(Asked& asked);
  void onLost(int member, const Status& why);
  Status handle(Asked& from);
  Status handleServer(const Asked& from);
  void refuse(const Asked& to, const Status& why);
  Status declare(const Asked& from);
  Status attach(const Asked& from);
  Status fill(const Asked& from);
  Status start(const Asked& from);
  Status pushRows(Asked& from);
  Status finish(const Asked& from);
  Status pullRows(const Asked& from);
  Status snapshot(const Asked& from);
  Status fetch(const Asked& from);
  void leave(int worker, bool finished);
  void answerLast();

  // server.cc: what is ordered.
  void order(const Coordinator::Orders& orders);
  void carryOut(const Order& order);
  void report(Squares squares);
  void giveUp(const std::string& why);
  void takeSnapshot();
  Handout handoutTo(std::span<const int> workers);
  Shard::Sinks sinksOf(const Handout& handout) const;
  void deliver(std::span<const int> workers);
  void release(const Order::Release& what, const Handout& handout);

  const ServerOptions options_;
  ServerMetrics metrics_;
  std::unique_ptr<Holding> holding_;
  std::unique_ptr<Gradients> gradients_;    // Once something has been declared.
  std::optional<Coordinator> coordinator_;  // The first server's.
  ServerFront front_;

  std::vector<Worker> workers_;
  int here_;                            // Workers that have not gone.
  std::vector<std::byte> declaration_;  // What all workers must declare alike.
  bool kept_ = false;                   // The holding is the epoch before's.
  bool started_ = false;
  Answer now_;                   // What every worker that gets parameters learns.
  std::optional<Asked> others_;  // Who waits until it is the last worker.
  std::deque<Asked> deferred_;   // Who waits for a snapshot.
  bool again_ = false;
  bool keeps_ = false;
  std::string failure_;
};

}  // namespace colla::ps
