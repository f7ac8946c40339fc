#include "base/terminal.h"

#include <termios.h>
#include <unistd.h>

#include <cstdlib>

namespace colla {

bool isTerminal(int fd) {
  const bool ofOurSession = tcgetsid(fd) != -1;
  const bool underOurLauncher = std::getenv("COLLA_RANK") != nullptr;
  return ofOurSession || (underOurLauncher && isatty(fd) == 1);
}

}  // namespace colla
