// The part of `colla run` that the user sees: waits for signals, events and output, and passes
// them on. What to do about them the Supervisor decides.
#pragma once

#include <csignal>
#include <functional>
#include <set>
#include <string>

#include "base/unique_fd.h"
#include "launch/guards.h"
#include "launch/output.h"
#include "launch/process_tree.h"
#include "launch/stdin_pump.h"
#include "launch/supervisor.h"

namespace colla::launch {

class Front {
 public:
  // `signals` is a signalfd of the signals to pass on; `spared` are descendants of this process
  // that have nothing to do with the job. `notice` has the words for a worker that is lost.
  Front(Guards& guards, Output& output, StdinPump input, Supervisor& supervisor, UniqueFd signals,
        std::set<ProcessId> spared, std::function<std::string(int worker)> notice)
      : guards_(guards),
        output_(output),
        input_(std::move(input)),
        supervisor_(supervisor),
        signals_(std::move(signals)),
        spared_(std::move(spared)),
        notice_(std::move(notice)) {}

  // Lets the job start and returns when nothing of it is left and its output is passed on.
  void run();
  // Passes on what was said since, then returns; what nobody takes stays where it is if the user or
  // the job's timeout does not wait for that.
  void flush();

 private:
  void wait();
  void act(Supervisor::Action action);
  void handleSignals(TimePoint now);
  void handleEvents(TimePoint now);
  void tellLosses();
  void endWithoutGuards();
  void ended(int processesLeft);

  Guards& guards_;
  Output& output_;
  StdinPump input_;
  Supervisor& supervisor_;
  UniqueFd signals_;
  std::set<ProcessId> spared_;
  std::function<std::string(int worker)> notice_;
  std::size_t lossesTold_ = 0;
  TimePoint guardsUntil_ = TimePoint::max();  // When they must have ended everything.
  bool ended_ = false;                        // No process of the job is left.
  bool impatient_ = false;                    // The user does not want to wait for output either.
};

}  // namespace colla::launch
