#include "launch/pseudo_terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace colla::launch {

Result<PseudoTerminal> PseudoTerminal::like(int fd) {
  PseudoTerminal terminal;
  const auto failed = [] {
    return Status(StatusCode::kIo, fmt::format("no pseudo-terminal: {}", std::strerror(errno)));
  };
  terminal.ours.reset(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal.ours.valid() || unlockpt(terminal.ours.get()) != 0) return failed();
  terminal.theirs.reset(ioctl(terminal.ours.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios settings{};
  if (!terminal.theirs.valid() || tcgetattr(terminal.theirs.get(), &settings) != 0) return failed();
  cfmakeraw(&settings);  // The user's terminal does what there is to do to the bytes, once.
  if (tcsetattr(terminal.theirs.get(), TCSANOW, &settings) != 0) return failed();
  copyWindowSize(fd, terminal.ours.get());
  return terminal;
}

void copyWindowSize(int from, int to) {
  winsize size{};
  if (ioctl(from, TIOCGWINSZ, &size) == 0) ioctl(to, TIOCSWINSZ, &size);
}

}  // namespace colla::launch
