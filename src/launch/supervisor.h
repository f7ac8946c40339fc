// Decides how a job goes on and how it ends. Pure: what happened and the time are passed in, what
// to do comes out.
//
// A job runs until all of its processes have ended. The first thing that goes wrong is its cause
// of ending, and what follows from it is none. A process that fails takes its peers along in no
// time, sometimes before it has quite ended itself, so after a failure there is a moment for all of
// them to end: one that was killed by a fault of its own is the culprit then, else the first one
// that did not say, by its exit code, that it only followed others. After that processes are asked
// to end, and have a grace period before they are killed. An interrupt that a patient job gets is a
// request, and nothing that goes wrong: processes may take their time to follow it, and a failure
// meanwhile is a failure like any other.
//
// A job may have workers to spare: then it goes on without one that failed. Whether that was all is
// seen after the same moment: a worker that only followed a server or too many others is no loss to
// bear, and one that took others along is the culprit.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "base/deadline.h"

namespace colla::launch {

// How one process ended.
struct End {
  bool killed = false;  // By signal `value`; otherwise it exited with code `value`.
  int value = 0;
  bool lost = false;  // With its host: it counts as killed, though nobody saw it.

  bool failed() const { return killed || value != 0; }
};

// With this code a worker of a patient job ends whose only trouble is that others are gone. It
// counts as 1.
inline constexpr int kExitFollowed = 76;

enum class Cause {
  kNone,          // Every process ended well.
  kFailed,        // culprit() did.
  kNotStarted,    // culprit() was not, for reason value() (an errno).
  kSignal,        // Signal value() came.
  kTimeout,       // The job took too long.
  kOutputLost,    // Its output goes nowhere, for reason value() (an errno).
  kGuardianLost,  // Somebody killed the guardian.
};

// INT, TERM, HUP and QUIT.
bool endsJob(int signal);

class Supervisor {
 public:
  struct Options {
    int workers = 1;
    int servers = 0;
    std::optional<std::chrono::milliseconds> timeout;
    std::chrono::milliseconds grace{5000};
    bool patient = false;  // No limit after a first INT; kExitFollowed has its meaning.
    int spareWorkers = 0;  // So many may fail, other than worker 0.
  };
  struct Action {
    enum class Kind { kNothing, kSignal, kEnd };
    Kind kind = Kind::kNothing;
    int signal = 0;  // For kSignal: to all that run.
  };

  // The moment after a failure, unless the grace period is shorter.
  static constexpr std::chrono::milliseconds kSettle{200};
  // What is left of the grace period after a host was lost: it took time to notice.
  static constexpr std::chrono::milliseconds kGraceAfterLoss{3000};

  Supervisor(const Options& options, TimePoint now);

  // Processes are numbered: workers by rank, then servers.
  Action ended(int process, End end, TimePoint now);
  Action notStarted(int process, int error);
  // Signals that end a job begin its end; an INT after that kills at once, and so does a second
  // one in any case. All others are only passed on.
  Action signalled(int signal, TimePoint now);
  Action outputLost(int error, TimePoint now);
  Action guardianLost();
  // When output that nobody takes is given up: only a job with a timeout does so.
  TimePoint outputUntil() const {
    return options_.timeout ? timeoutAt_ + options_.grace : TimePoint::max();
  }
  // It was: the cause, unless there is another.
  void outputLeft();
  // To be called at nextDeadline(), or whenever.
  Action tick(TimePoint now);
  TimePoint nextDeadline() const;

  // Everything that is left is being killed, or there is nothing left.
  bool killing() const { return phase_ == Phase::kKilling; }

  // Final once an action said kEnd, but for what outputLeft() adds.
  Cause cause() const { return cause_; }
  int culprit() const { return culprit_; }
  int value() const { return value_; }
  // Of a process that has ended.
  std::optional<End> endOf(int process) const { return ends_[static_cast<std::size_t>(process)]; }
  // Workers that failed, and that the job went on without, in this order.
  const std::vector<int>& lost() const { return lost_; }
  // Those that had not ended when the cause came up.
  const std::vector<int>& running() const { return running_; }

 private:
  enum class Phase {
    kRunning,
    kServersLeft,  // All workers ended well: servers have the grace period to follow.
    kSettling,     // One failed: others may show why.
    kEnding,       // Processes were asked to end.
    kKilling,
  };
  void blame(Cause cause, int culprit, int value);
  void settle(int process, TimePoint now);
  void fail(int process, TimePoint now);
  bool canSpare(int process) const;
  void acceptLosses();
  bool follows(int process) const { return follows_[static_cast<std::size_t>(process)]; }
  // Nobody asked for that end.
  bool isFailure(const End& end) const;
  bool waitsPatiently() const { return phase_ == Phase::kEnding && phaseEnds_ == TimePoint::max(); }
  Action ask(int signal, TimePoint now);
  Action kill();

  Options options_;
  Phase phase_ = Phase::kRunning;
  TimePoint timeoutAt_ = TimePoint::max();
  TimePoint phaseEnds_ = TimePoint::max();
  bool interrupted_ = false;  // By a first INT.
  Cause cause_ = Cause::kNone;
  int culprit_ = -1;
  int value_ = 0;
  std::vector<std::optional<End>> ends_;
  std::vector<bool> follows_;  // Ended with kExitFollowed.
  std::vector<int> running_;
  std::vector<int> lost_;
  std::vector<int> losing_;  // Failed just now: whether they are a loss to bear shows
  TimePoint losingUntil_ = TimePoint::max();  // by then.
  int workersLeft_;
  int left_;
};

}  // namespace colla::launch
