// Ctrl-C, SIGTERM and SIGUSR1 as a request: the first asks the run to save and leave, a second
// Ctrl-C or SIGTERM ends the process at once. SIGUSR1 is what Slurm sends before a time limit
// (--signal): the SIGTERM at the limit may still find the run saving. A process that ends at once
// says which step is saved.
//
// One at a time in a process; the handlers that were there before come back with its end.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>

namespace colla::train {

class Interrupt {
 public:
  // `wayOn`: what follows "step N" for the newest checkpoint; empty if none is kept.
  explicit Interrupt(std::string wayOn = "");
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // From any thread.
  static bool requested();
  // `step` has become the newest checkpoint. From any thread.
  static void saved(std::int64_t step);

 private:
  std::string wayOn_;
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
  struct sigaction limit_ {};
};

}  // namespace colla::train
