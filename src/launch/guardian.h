// The guardian: a process between `colla run` and the processes of its job, so that either of the
// two can be killed (with -9) and the other one still ends everything.
//
//   colla run (the front)  ──orders──▸  guardian  ──▸  worker 0, worker 1, … ──▸ their children
//                          ◂──events──
//
// The guardian has one thread, decides nothing, and ignores every signal. The processes are its
// children; they die with it (PR_SET_PDEATHSIG), their orphans become the guardian's, and after it
// the front's (both are reapers). When the front goes away the guardian ends what there is, and
// itself; when the guardian does, or no longer answers, the front ends what there is.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "colla/status.h"
#include "launch/guards.h"
#include "launch/spawn.h"

namespace colla::launch {

// The front's end. Not thread safe.
class Guardian : public Guards {
 public:
  // Forks the guardian; nothing is started yet. `commands` and their descriptors are copied with
  // it: the caller closes its own copies. The calling process must have one thread. Once nothing of
  // the job is left, the guardian removes the directories `litter`.
  static Result<Guardian> create(const std::vector<Command>& commands, const Inherited& inherited,
                                 const std::vector<std::string>& litter = {});

  Guardian(Guardian&&) = default;
  Guardian& operator=(Guardian&&) = delete;
  // Ends the job, if there still is one, and waits for that.
  ~Guardian() override;

  // Readable when there is an event or the guardian is gone.
  int fd() const { return channel_.get(); }
  void send(Order order) override;
  Result<Event> next() override;
  void wait() override;

  void prepare(std::vector<pollfd>& polls) override { polls.push_back({fd(), POLLIN, 0}); }
  bool handle(const std::vector<pollfd>& polls, std::size_t at, TimePoint) override {
    return polls[at].revents != 0;
  }
  TimePoint nextDeadline() const override { return TimePoint::max(); }
  void pause() override {}
  std::chrono::milliseconds endLimit() const override { return std::chrono::seconds(3); }

 private:
  Guardian(UniqueFd channel, pid_t pid) : channel_(std::move(channel)), pid_(pid) {}

  UniqueFd channel_;
  pid_t pid_;
};

}  // namespace colla::launch
