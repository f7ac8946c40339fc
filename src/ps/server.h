// A parameter server: holds its part of the model, takes gradients, hands out parameters.
//
// One thread sleeps until a worker or another server says something, and never waits for one of
// them in particular. What there is to compute it shares out to a team, block by block. The first
// server asks the policy what to do; its decisions reach the others in one order, so all of them
// make the same updates.
//
// A worker's gradients are read where they lie in memory that it shares, and parameters are
// written into its memory; between hosts both travel as messages.
//
// Not thread safe: run() is the whole of its life.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "ps/declaration.h"
#include "ps/inbox.h"
#include "ps/outbox.h"
#include "ps/policy.h"
#include "ps/shard.h"
#include "ps/team.h"
#include "ps/wire.h"

namespace colla::ps {

struct ServerOptions {
  transport::Transport* transport = nullptr;
  int rank = 0;  // Among the servers.
  int servers = 1;
  int workers = 1;
  std::vector<std::string> names;              // Of all peers, for messages.
  std::chrono::milliseconds timeout{300'000};  // For a step that waits for a worker.
  int threads = 1;                             // To compute with; bits don't depend on it.
  std::size_t worthSharing = Team::kWorthSharing;
  // How many servers this process has been before (again()). What those before left unread of each
  // other is not for this one.
  std::uint32_t life = 0;
};

class Server {
 public:
  explicit Server(ServerOptions options);
  ~Server();

  // Until every worker has left. An error when the job could not go on.
  Status run();
  // After run(): the workers said that they will be back, with another declaration.
  bool again() const { return again_; }

 private:
  struct Worker;
  struct Snapshot;
  // Who gets the parameters, and how.
  struct Handout {
    std::vector<std::byte*> areas = {};  // Of workers on this host,
    // and the one copy of own blocks that all others are sent.
    std::shared_ptr<std::map<int, AlignedBytes>> parcel = {};
  };

  bool first() const { return options_.rank == 0; }
  bool declared() const { return shard_ != nullptr; }
  int peerOfServer(int server) const { return options_.workers + server; }
  // The last of the channels in ps/wire.h, and one more for each life.
  std::uint32_t serverChannel() const { return kServerChannel + options_.life; }
  const std::string& nameOf(int peer) const { return options_.names[peer]; }

  // server.cc: what comes in.
  void listen();
  void take(Inbox& inbox);
  void lost(int peer, const Status& status);
  Result<std::vector<std::span<std::byte>>> targetsOf(int peer, const Ask& ask,
                                                      std::vector<std::byte>& payload);
  // Where it lies; `keep` holds it there.
  Result<std::span<const std::byte>> payloadOf(const Asked& from, transport::Mapping& keep);
  Status handle(Asked& from);
  Status handleServer(const Asked& from);
  void answer(const Asked& to, const Answer& answer, std::vector<std::byte> payload = {});
  void refuse(const Asked& to, const Status& why);
  TimePoint nextDeadline() const;
  void keepTime();

  // server_asks.cc: what a worker asks for.
  Status declare(const Asked& from);
  Status attach(const Asked& from);
  Status fill(const Asked& from);
  Status start(const Asked& from);
  void push(int peer, const Ask& ask);
  void checkPushed();
  Status check(int peer, int block, std::int64_t step) const;
  const std::byte* gradientOf(int peer, int block, int leaf) const;
  Status pushRows(Asked& from);
  Status finish(const Asked& from);
  Status pullRows(const Asked& from);
  Status fetch(const Asked& from);

  // server_handout.cc: the parameters on their way to workers.
  Handout handoutTo(std::span<const int> workers);
  Shard::Sinks sinksOf(const Handout& handout) const;
  void deliver(std::span<const int> workers);
  void release(int worker, const Handout& handout, Answer head);

  // server_orders.cc: what is decided.
  void arrived(int worker, std::int64_t step);
  void gone(int worker, bool finished);
  void answerLast();
  void decide(std::vector<Decision> decisions);
  void order(Order order);
  void tell(int server, Ask ask, std::vector<std::byte> payload = {});
  void fail(const std::string& why);
  void work();
  void begin(const Order& order);
  bool scale();
  void complete(const Order& order);
  Terms termsOf(const Order& order) const;
  double clipScale() const;
  void takeSnapshot();

  const ServerOptions options_;
  transport::Transport& transport_;
  Outbox outbox_;
  std::vector<std::unique_ptr<Inbox>> inboxes_;
  std::vector<Worker> workers_;
  int here_;  // Workers that have not gone.

  std::vector<std::byte> declaration_;
  std::optional<Declaration> job_;
  std::unique_ptr<Layout> layout_;
  Team team_;
  std::unique_ptr<Shard> shard_;
  bool started_ = false;
  std::optional<Asked> others_;  // Who waits until it is the last worker.
  std::int64_t step_ = 0;        // Updates made.
  double scale_ = 1;             // What the last one's gradients were multiplied by to clip them.
  bool stop_ = false;            // Some worker would like to end.
  bool again_ = false;
  std::string failure_;

  // The first server's.
  std::unique_ptr<Policy> policy_;
  std::vector<int> reports_;                     // By worker: servers that have all of its step.
  std::vector<std::optional<Squares>> squares_;  // By server, for the order under way.
  Statistics statistics_;
  std::optional<TimePoint> waitingSince_;

  std::deque<Order> orders_;
  bool underWay_ = false;  // The first order has been summed and waits for its scale.
  Handout handout_;        // What the first order has made, for those whom it releases.
  std::optional<double> scaleOrdered_;
  std::vector<std::uint32_t> serverSequences_;  // Of messages to each other server.
  std::unique_ptr<Snapshot> snapshot_;
  std::deque<Asked> deferred_;

  struct Pushed {
    int peer;
    int block;
    std::int64_t step;
  };
  std::vector<Pushed> unchecked_;
};

}  // namespace colla::ps
