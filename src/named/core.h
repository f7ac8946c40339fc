// The inside of an Exchange: its thread, what is pending, and rank 0's coordinator.
//
// Callers put requests into `pending_` and their announcements into `outgoing_`. The thread alone
// talks to other ranks, carries out orders, and takes requests out again.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/thread_annotations.h"
#include "named/announcement.h"
#include "named/coordinator.h"
#include "named/exchange.h"
#include "named/executor.h"
#include "named/mailbox.h"
#include "named/timeline.h"
#include "named/wake.h"

namespace colla::named {

class Exchange::Core {
 public:
  static Result<std::unique_ptr<Core>> create(Job& job, Options options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // All or none; more than one are a group.
  Status submit(std::vector<Request> requests);
  // What concerns the exchange itself; `what` has kOwnSet.
  Status submitOwn(Announcement what, Request request);
  // The same, until it is done; the number that came of it.
  Result<int> call(Announcement what);

  std::map<int, std::vector<int>> sets() const;
  Status status() const;
  int rank() const { return rank_; }
  Timeline& timeline() { return timeline_; }

 private:
  Core(Job& job, Options options, std::unique_ptr<Group> world);

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

  Mutex calls_;  // One call() at a time.

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
