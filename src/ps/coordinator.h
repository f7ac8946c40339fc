// Decides what all servers do: the first server's part, without sockets, threads or a clock.
//
// Events go in, with the time at which they happened; orders come out, each with its reason as
// text. Every server carries them out in the order in which they are returned. The policy decides
// whose gradients make an update; the coordinator turns that into orders: what the sums are
// multiplied by (for clipping it first collects every server's squares, and holds back what was
// decided meanwhile), what each worker learns with its parameters, and when a wait has lasted too
// long.
//
// Not thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "ps/order.h"
#include "ps/policy.h"
#include "ps/squares.h"
#include "ps/wire.h"

namespace colla::ps {

class Coordinator {
 public:
  struct Options {
    std::vector<std::string> workers = {};  // Their names.
    int servers = 1;
    std::chrono::nanoseconds timeout = std::chrono::minutes(5);  // Of a step that waits.
  };
  using Orders = std::vector<Order>;

  explicit Coordinator(Options options);

  // What is trained. `places`: by entry, its place among the model's parameters, in the order of
  // which the global norm is summed.
  void declare(const PolicyOptions& policy, double clipNorm, std::vector<int> places);
  // Worker 0 has started the servers. `statistics`: of the epochs before.
  void start(std::int64_t step, Statistics statistics = {});

  // A worker has ended its step, and the first server has all of it. `step`: updates that the
  // worker had seen.
  Orders finished(int worker, std::int64_t step, Finish finish, TimePoint now);
  // Another server has all of it.
  Orders reported(int worker, std::int64_t step, TimePoint now);
  // A worker has left, or is lost.
  Orders gone(int worker, bool finished, TimePoint now);
  // What a server has summed for clipping.
  Orders squares(int server, Squares squares);
  // Worker 0 wants a checkpoint. The one that it had announced for a later step is not taken.
  Orders snapshot();
  // To be called after every event, and at nextDeadline().
  Orders tick(TimePoint now);
  TimePoint nextDeadline() const;

  const Statistics& statistics() const { return statistics_; }
  // What people should know of: stragglers, and gradients that were dropped.
  std::vector<std::string> takeNews();

 private:
  struct Worker {
    bool gone = false;
    int reports = 0;               // Servers that have all of its step.
    std::optional<Finish> finish;  // Of its step, until it is released.
    std::int64_t step = 0;         // Updates that it had seen then.
    std::int64_t clock = 0;        // Steps that it has finished.
    std::int64_t late = 0;
    bool dropped = false;
  };
  // Something that was decided, and has not been ordered yet.
  struct Held {
    Decision decision;
    bool snapshot = false;
  };

  Orders arrived(int worker, std::int64_t step, TimePoint now);
  Orders decide(std::vector<Decision> decisions);
  Orders fail(std::string why);
  Orders orderHeld();
  Order orderFor(Order::Kind kind) const;
  Order snapshotOrder();
  void addUpdate(Orders& orders, Order update);
  Order complete(const Decision& decision, Order::Kind kind, Terms terms);
  Order::Release releaseOf(int worker);
  Terms termsOf(const Decision& decision) const;
  double clipScale(double gradScale) const;

  const Options options_;
  PolicyOptions policyOptions_;
  double clipNorm_ = 0;
  std::vector<int> places_;
  std::unique_ptr<Policy> policy_;  // Null before start().
  std::vector<Worker> workers_;
  int there_;  // Workers that have not gone.
  std::int64_t step_ = 0;
  double scale_ = 1;
  Stop stop_ = Stop::kNo;
  double plateau_ = 1;
  std::int64_t snapshotAt_ = -1;  // As worker 0 last said.
  bool failed_ = false;
  Statistics statistics_;
  std::deque<Held> held_;
  // The update that servers have been told to sum, and what they have reported.
  std::optional<Decision> summing_;
  std::vector<std::optional<Squares>> squares_;
  std::optional<TimePoint> waitingSince_;
  std::vector<std::string> news_;
};

}  // namespace colla::ps
