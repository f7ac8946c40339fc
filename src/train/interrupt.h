// Ctrl-C, SIGTERM and SIGUSR1 as a request: the first asks the run to save and leave, a second
// Ctrl-C or SIGTERM ends the process at once. SIGUSR1 is what Slurm sends before a time limit
// (--signal): the SIGTERM at the limit may still find the run saving.
//
// One at a time in a process; the handlers that were there before come back with its end.
#pragma once

#include <csignal>

namespace colla::train {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // From any thread.
  static bool requested();

 private:
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
  struct sigaction limit_ {};
};

}  // namespace colla::train
