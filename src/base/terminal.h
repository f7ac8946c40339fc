// Whether there is a person in front of an output.
#pragma once

namespace colla {

// `fd` is the terminal that this process was started from: what is drawn there is seen as it is
// drawn.
//
// mpirun and `srun --unbuffered` give their processes pseudo-terminals also where their own output
// goes to a file. These are not the terminal of any session, and so do not count. A process that
// Colla's own launcher started has a terminal only if the launcher has one.
bool isTerminal(int fd);

}  // namespace colla
