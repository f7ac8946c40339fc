// Ctrl-C and SIGTERM as a request: the first asks the run to save and leave, a second ends the
// process at once.
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
};

}  // namespace colla::train
