// Collectives that ranks may start in any order: operations are matched by name.
//
//   auto exchange = named::NamedExchange::create(*job);
//   named::Request request{.name = "weight", .shape = {1000}, .input = …};
//   request.output = [=](auto shape) { return memoryFor(shape); };
//   request.done = [=](const Status& status, auto splits) { … };
//   COLLA_TRY((*exchange)->submit(std::move(request)));
//
// Ranks tell rank 0, the coordinator, what they have; what every member of the set has brought is
// carried out by all members in one order. Sums are canonical (colla/collectives.h): their bits do
// not depend on what else was fused with them.
//
// What goes wrong with one name (shapes that differ, say) is kMismatch for that name on every
// member, with who brought what; everything else goes on. What concerns all ends the exchange on
// all ranks: a lost rank (kPeerLost, naming it), a rank that shut its exchange down (kCancelled,
// naming it), a stall that lasted too long (kTimeout). Everything pending then ends with that
// status, and so does every later call.
//
// Thread safety: every function may be called from any thread. One thread of the exchange's own
// does the work and calls back.
//
// Inside: callers put requests into `pending_` and their announcements into `outgoing_`. The thread
// alone talks to other ranks, carries out orders, and takes requests out again.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/thread_annotations.h"
#include "colla/job.h"
#include "colla/status.h"
#include "named/announcement.h"
#include "named/coordinator.h"
#include "named/executor.h"
#include "named/mailbox.h"
#include "named/request.h"
#include "named/timeline.h"
#include "named/wake.h"

namespace colla::named {

// Rank 0's count.
struct Options {
  // Allreduces that are ready at the same time travel together up to this size; 0: none do.
  std::size_t fusionBytes = std::size_t{64} << 20;
  // How long the first operation that is ready waits for others to travel with it; 0: not at all.
  std::chrono::microseconds cycle{0};
  // After this time rank 0 reports operations that only some ranks have brought, and again each
  // time it has passed; 0: never.
  std::chrono::milliseconds stallWarning{60'000};
  // After this time such an operation ends the exchange; 0: never.
  std::chrono::milliseconds stallShutdown{0};
  // Takes the reports, on rank 0's exchange thread; empty: they are logged as warnings.
  std::function<void(const std::string& report)> report = {};
};

class NamedExchange {
 public:
  // Every rank of the job calls it, as many times. `job` must outlive the exchange and be a
  // worker's.
  static Result<std::unique_ptr<NamedExchange>> create(Job& job, Options options = {});
  // Ends what is pending with kCancelled and tells the other ranks, whose exchanges end too. Does
  // not wait for them, beyond orders that are under way (5 s at most). The caller must hold no lock
  // that `output` or `done` need, and not be one of them.
  ~NamedExchange();
  NamedExchange(const NamedExchange&) = delete;
  NamedExchange& operator=(const NamedExchange&) = delete;

  // Takes the request over, or refuses it at once (done() is not called then): kInvalidArgument
  // when its name is under way already in that set, the set is unknown or without this rank, or
  // sizes do not fit; kUnsupported for what the type or the number of members does not allow; the
  // status that the exchange has ended with.
  Status submit(Request request);
  // Several requests of one set, which are carried out only once every member has brought all of
  // them, and then together. Every member groups the same names. All are taken, or none is. When
  // one fails all of them do.
  Status submitGroup(std::vector<Request> requests);

  // This rank has nothing more to bring. Until all ranks have joined it takes part with zeros in
  // allreduces of the others (sum, average, Adasum; an average still divides by all members) and
  // in barriers; their other operations end with kUnsupported. Then `done` is called with the rank
  // that joined last, on the exchange's thread, and everything is as before. In between, submit()
  // is refused with kInvalidArgument.
  Status join(std::function<void(const Status& status, int lastRank)> done);

  // A process set of these ranks, in ascending order; its number. Every rank of the job calls it
  // with the same ranks, and it returns when all have. kInvalidArgument on all for ranks that do
  // not exist, are repeated, or make up a set that there is already; kMismatch where ranks ask for
  // different things. Not to be called by `output` or `done`.
  Result<int> addSet(std::vector<int> ranks);
  // Removes a set, in the same way: kNotFound for one that is not there, kInvalidArgument for 0.
  // What is pending in it ends with kCancelled.
  Status removeSet(int set);
  // The members of every set, by its number.
  std::map<int, std::vector<int>> sets() const;

  // Writes what happens from now on to `path`, as a trace for chrome://tracing or Perfetto, with a
  // mark for every round of decisions if asked for. Rank 0 does; on other ranks it is fine and
  // does nothing. A trace that is being written is finished first.
  Status startTimeline(const std::string& path, bool markCycles);
  // Returns when the file is complete. Fine when there is none.
  Status stopTimeline();

  // Fine, or what the exchange has ended with.
  Status status() const;

 private:
  NamedExchange(Job& job, Options options, std::unique_ptr<Group> world);

  // All or none; more than one are a group.
  Status submitAll(std::vector<Request> requests);
  // What concerns the exchange itself; `what` has kOwnSet.
  Status submitOwn(Announcement what, Request request);
  // The same, until it is done; the number that came of it.
  Result<int> call(Announcement what) COLLA_EXCLUDES(calls_);

  Status enqueue(std::vector<Announcement> announcements, std::vector<Request> requests)
      COLLA_REQUIRES(mutex_);
  Status refusal() const COLLA_REQUIRES(mutex_);

  // On the thread.
  void serveOnThread();
  Status runOnThread();
  Status takeLocal();
  Status takeMessages();
  Status takeReport(int rank, std::span<const std::byte> bytes);
  Status coordinate();
  void wait();
  Status carryOut(const Orders& orders);
  Status carryOut(const Batch& batch);
  Status carryOutOwn(const Decision& decision);
  void tellEnd(const Status& end);
  void breakGroups(const Status& why);
  void finish(const Key& key, const Status& status, std::span<const std::int64_t> numbers);
  void finishAll(const Status& end);

  const Options options_;
  const std::vector<std::string> names_;  // Of the ranks.
  const int rank_;
  Wake wake_;
  Timeline timeline_;

  mutable Mutex mutex_;
  std::map<Key, Request> pending_ COLLA_GUARDED_BY(mutex_);  // The thread alone erases.
  std::vector<Announcement> outgoing_ COLLA_GUARDED_BY(mutex_);
  std::map<int, std::vector<int>> sets_ COLLA_GUARDED_BY(mutex_);
  bool joined_ COLLA_GUARDED_BY(mutex_) = false;
  bool closing_ COLLA_GUARDED_BY(mutex_) = false;
  Status ended_ COLLA_GUARDED_BY(mutex_);

  // Guards the announcement kOwnSet, which is under way once at most: held through a whole call().
  Mutex calls_;

  // The thread's own.
  std::map<int, std::unique_ptr<Group>> groups_;     // By set; those that this rank is in.
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;  // Rank 0: to all others; others: to rank 0.
  std::optional<Coordinator> coordinator_;           // Rank 0.
  std::vector<Decision> held_;                       // Decided, and waiting for company,
  TimePoint heldSince_;                              // since then.
  std::optional<Deadline> goodbye_;                  // This rank leaves, and has said so.
  bool told_ = false;                                // The end came from the coordinator.
  Executor executor_;
  std::thread thread_;
};

}  // namespace colla::named
