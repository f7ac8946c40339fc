// Starts the agents of every system, asks them questions, and ends them.
//
// Agents live from start() to the destructor, but sleep except while they are asked, so that
// systems do not disturb each other. Whichever way this object ends, and even if its process is
// killed, no agent and no file is left.
//
// Not thread safe, and to be used in a process with one thread: it forks, and blocks SIGINT,
// SIGTERM and SIGHUP while it lives, to turn them into kCancelled.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "bench/line_socket.h"
#include "colla/status.h"
#include "launch/blocked_signals.h"
#include "launch/processes.h"
#include "launch/scratch.h"

namespace colla::bench {

using launch::exitCode;
using launch::Processes;
using launch::ProcessSpec;
using launch::Watch;

// How to start a system: processes whose agents say hello from `np` ranks.
struct SystemSpec {
  std::string name;
  int np = 0;
  std::vector<ProcessSpec> processes;
};

class Coordinator {
 public:
  static Result<std::unique_ptr<Coordinator>> create();
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  const launch::Scratch& scratch() const { return scratch_; }
  std::string socketPath() const { return scratch_.path("socket"); }
  // The signal that asked this process to end; 0 as long as none has.
  int signal() const { return signal_; }
  // How many systems have been started.
  int systems() const { return static_cast<int>(systems_.size()); }

  // Returns once all ranks of the system are there. On an error nothing of it is left.
  Status start(const SystemSpec& spec, Deadline deadline);

  // Ends the processes of a system.
  void stop(const std::string& system);

  // Says `line` to all ranks of a system, and returns what each has answered behind "ok", in their
  // order. An error names the system and the rank, with its last words. `meanwhile`, if there is
  // one, is called every few milliseconds until they have answered.
  Result<std::vector<std::string>> ask(const std::string& system, const std::string& line,
                                       Deadline deadline,
                                       const std::function<Status()>& meanwhile = {});

  // A system's processes, also those without an agent, in the order of its SystemSpec.
  std::span<const Processes::One> processes(const std::string& system);

  // Runs programs that are not agents, all at once, to their ends. When one fails, this ends the
  // others and returns an error with its last lines. `started` is called once, before they run.
  Status run(std::span<const ProcessSpec> specs, Deadline deadline,
             const std::function<void(std::span<const Processes::One> processes)>& started = {});
  Status run(const ProcessSpec& spec, Deadline deadline) { return run({&spec, 1}, deadline); }

 private:
  struct Rank {
    std::optional<LineSocket> socket;  // Nothing before hello.
    std::optional<std::string> answer;
    // Set when it hung up: how long its process has to end, so that its last lines can be shown.
    std::optional<Deadline> lastWords;
  };
  struct System {
    std::string name;
    std::vector<Rank> ranks;
    std::unique_ptr<Processes> processes;
  };

  Coordinator(const launch::Inherited& inherited, std::unique_ptr<launch::BlockedSignals> signals,
              launch::Scratch scratch, UniqueFd listener);
  System* find(const std::string& name);
  // Waits for news once and takes them in; an error when a system failed or a signal came.
  Status takeNews(Deadline deadline);
  Status takeSignal();
  void takeConnection();
  void takeHello(LineSocket& socket);
  static void takeLines(Rank& rank);
  static void hangUp(Rank& rank);
  // The error that a rank of `system` has reported, if one has.
  static Status complaint(const System& system);
  // What is wrong with `system`, if anything is.
  static Status health(System& system);

  const launch::Inherited inherited_;
  std::unique_ptr<launch::BlockedSignals> signals_;  // First made, last given up.
  launch::Scratch scratch_;
  UniqueFd listener_;
  int signal_ = 0;
  std::list<LineSocket> strangers_;  // Connected, but have not said hello yet.
  std::list<System> systems_;
};

}  // namespace colla::bench
