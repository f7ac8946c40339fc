// The inside of a Group: its members, its turn-taking, and what its algorithms work with.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/thread_annotations.h"
#include "colla/group.h"
#include "collective/board.h"
#include "collective/call.h"
#include "collective/call_metrics.h"
#include "collective/crew.h"
#include "collective/levels.h"
#include "collective/sum_tree.h"
#include "transport/transport.h"

namespace colla {

// Messages between two ranks of a group go by its id with this bit, which no id has: apart from
// those of its collectives.
inline constexpr std::uint32_t kMessageBit = 1U << 31;

// The numbers of the groups that live on one transport: two of the same would mix their messages.
// Thread safe.
class GroupIds {
 public:
  // False when it is taken.
  bool claim(std::uint32_t id) {
    const MutexLock lock(mutex_);
    return taken_.insert(id).second;
  }
  void release(std::uint32_t id) {
    const MutexLock lock(mutex_);
    taken_.erase(id);
  }

 private:
  Mutex mutex_;
  std::set<std::uint32_t> taken_ COLLA_GUARDED_BY(mutex_);
};

// The transports of a job, and which of them a group uses.
struct Routes {
  transport::Transport* wire = nullptr;  // To every process of the job.
  transport::Transport* host = nullptr;  // To those of this host; null: there is none but `wire`.
  std::vector<std::string> hosts;        // By transport number: equal for processes of one host.
  // Processes of one host share memory, on every host; `host` is null in one that is alone there.
  bool sharesMemory = false;

  // Inside a host its own transport, otherwise the wire.
  transport::Transport* between(std::span<const int> members) const;
  // Where those members are.
  Topology topologyOf(std::span<const int> members) const;
};

class GroupCore {
 public:
  struct Options {
    transport::Transport* transport = nullptr;  // Outlives the group.
    std::shared_ptr<const Routes> routes;       // For subgroups; null: they have `transport`, too.
    std::uint32_t id = 0;                       // The same on every rank, unlike other groups'.
    std::shared_ptr<GroupIds> ids;              // Of the transport; null: this is the first group.
    std::shared_ptr<collective::MemoryShelf> shelf;  // Of the job; null: one of its own.
    std::vector<int> members;                        // Transport numbers, in the order of ranks.
    int rank = 0;
    std::vector<std::string> names;  // Of the members, for messages.
    std::chrono::milliseconds timeout{300'000};
    Algorithm algorithm = Algorithm::kAuto;

    // `limit`, or `timeout` if it is 0; "for ever" is a day. Up to 10 ms later than that.
    Deadline deadlineFor(std::chrono::milliseconds limit) const;
  };

  // One collective under way on this rank: what its algorithm needs to know.
  struct Turn {
    int rank() const { return crew.rank; }
    int size() const { return crew.size(); }
    collective::Board* board() const { return crew.board; }
    // The phases of a group on two levels: a meeting of this host's ranks, and messages in a lane.
    // Messages of different rounds don't mix.
    Turn inside() const;
    Turn across(int lane, std::uint32_t messageRound = 0) const;

    GroupCore& group;
    const collective::Crew& crew;  // Who carries it out, and in which numbers.
    std::uint64_t sequence;
    transport::Call call;
    Deadline deadline;
    bool ownLimit;         // The call has a time limit of its own: not the job's setting.
    TimePoint began = {};  // Zero: this one is not timed.
    std::uint32_t round = 0;
  };

  // Meets the other members, each of which calls it too.
  static Result<std::unique_ptr<GroupCore>> create(Options options, Deadline deadline);
  ~GroupCore();
  // Carries out what was enqueued and ends the progress thread.
  void close();
  // Breaks the group, from any thread: what is under way here and elsewhere ends with `why`.
  void abort(const Status& why);
  // The same, for a rank that can't go on between two collectives. Returns what the group is broken
  // by: another may have failed first, told everybody, and taken along what this one lacks.
  Status giveUp(const Status& why);

  int rank() const { return options_.rank; }
  int size() const { return static_cast<int>(options_.members.size()); }
  const Options& options() const { return options_; }
  const collective::SumTree& tree() const { return tree_; }  // One slice per rank.
  // All members.
  const collective::Crew& whole() const { return whole_; }
  // Null where the members don't all share memory.
  collective::Board* board() { return board_.get(); }
  // Null but where the members are on several hosts, and some of them share memory.
  collective::Levels* levels() { return levels_.get(); }
  Deadline deadlineFor(std::chrono::milliseconds limit) const {
    return options_.deadlineFor(limit);
  }

  // Carries out one collective when its turn has come; an error of `body` breaks the group.
  // `refusal` is what this rank has against its own arguments: then it meets the others all the
  // same, and returns it. The group stays whole where all of them refuse.
  template <typename Body>
  Status run(const collective::CallArguments& arguments, std::chrono::milliseconds timeout,
             const Status& refusal, const Body& body) {
    const transport::Call call =
        collective::encode(refusal.ok() ? arguments : collective::CallArguments{});
    Turn turn{*this, whole_, 0, call, deadlineFor(timeout), timeout.count() > 0};
    COLLA_TRY(begin(turn));
    if (refusal.ok()) return end(turn, body(turn));
    static_cast<void>(end(turn, meetRefused(turn)));
    return refusal;
  }

  // Behind what was started before; `done` is called on the progress thread.
  void enqueue(std::function<Status()> operation, std::function<void(Status)> done);

  // Logs `text` on rank 0, the first time that it is called with it.
  void warnOnce(const std::string& text);

  // The next number of a message to (or from) `peer` with `tag`.
  std::uint32_t nextMessage(bool outgoing, int peer, std::uint32_t tag);
  // Nothing has come of message `number`: the next one gets it. False when another has the one
  // after.
  bool giveBackMessage(bool outgoing, int peer, std::uint32_t tag, std::uint32_t number);
  // The id of the next subgroup of `members`, the same on every one of them.
  std::uint32_t nextSubgroup(const std::vector<int>& members);

 private:
  explicit GroupCore(Options options);
  Status connect(Deadline deadline);
  // Makes the board of a crew that shares memory, keeps it, and finds the others'.
  Status openBoard(Turn turn, const std::function<void(std::unique_ptr<collective::Board>)>& keep);
  void tellMembers(const Status& why);
  void breakBoards(const Status& why);
  Status begin(Turn& turn);
  // What a call that waits for its turn waits for.
  std::string ahead() const COLLA_REQUIRES(mutex_);
  Status end(const Turn& turn, Status status);
  Status meetRefused(Turn& turn);
  void serveQueueOnProgressThread();

  const Options options_;
  const collective::SumTree tree_;
  collective::Crew whole_;
  std::unique_ptr<collective::Board> board_;
  std::unique_ptr<collective::Levels> levels_;

  struct Task {
    std::function<Status()> operation;
    std::function<void(Status)> done;
  };
  Mutex mutex_;
  Condition changed_;
  // A collective, or a task of the progress thread, is under way.
  bool busy_ COLLA_GUARDED_BY(mutex_) = false;
  std::uint64_t sequence_ COLLA_GUARDED_BY(mutex_) = 0;
  // Of the collective under way.
  std::optional<transport::Call> current_ COLLA_GUARDED_BY(mutex_);
  Status broken_ COLLA_GUARDED_BY(mutex_);
  std::deque<Task> queue_ COLLA_GUARDED_BY(mutex_);
  bool closing_ COLLA_GUARDED_BY(mutex_) = false;
  std::set<std::string> warnings_ COLLA_GUARDED_BY(mutex_);
  // By direction (outgoing or not), peer and tag.
  std::map<std::tuple<bool, int, std::uint32_t>, std::uint32_t> messages_ COLLA_GUARDED_BY(mutex_);
  std::map<std::vector<int>, std::uint32_t> subgroups_ COLLA_GUARDED_BY(mutex_);
  collective::CallMetrics metrics_ COLLA_GUARDED_BY(mutex_);
  // enqueue() starts it under the mutex; close(), behind the last enqueue(), joins it.
  std::thread progress_;
};

}  // namespace colla
