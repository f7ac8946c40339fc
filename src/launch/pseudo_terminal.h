// A terminal of our own making, for a process that should behave as on the user's while we read
// what it says.
//
// The user's own terminal would do for writing, but then we would not see the process's last
// words, nor keep its progress bar and the lines of others apart. A variable that tells the width
// would do for our own progress bar, but not for other people's code, nor for stdio, which holds
// lines back unless it sees a terminal.
#pragma once

#include "base/unique_fd.h"
#include "colla/status.h"

namespace colla::launch {

struct PseudoTerminal {
  UniqueFd ours;
  UniqueFd theirs;  // To be an output: passes every byte on as it is.

  // With the size of the terminal `fd`.
  static Result<PseudoTerminal> like(int fd);
};

// The size of the window behind terminal `from` becomes that of `to`.
void copyWindowSize(int from, int to);

}  // namespace colla::launch
