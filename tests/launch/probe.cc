// A program for the launcher to run. Its first argument says how it behaves; it tells what it does
// on standard output, so that a test can wait for it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

void say(const char* text) { (void)!write(STDOUT_FILENO, text, std::strlen(text)); }

// A child that left its parent, session and descriptors behind, as daemons do.
void startDaemon() {
  if (fork() != 0) return;
  setsid();
  if (fork() != 0) _exit(0);
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  (void)!chdir("/");
  for (int fd = 0; fd < 64; ++fd) close(fd);
  for (;;) pause();
}

void waitForEver() {
  for (;;) pause();
}

void onSignal(int signal) {
  if (signal == SIGUSR1) {
    say("got USR1\n");
  } else {
    say(signal == SIGINT ? "got INT\n" : "got TERM\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "daemon") {  // Then ends.
    startDaemon();
    say("ready\n");
    return 0;
  }
  if (mode == "daemon-wait") {
    startDaemon();
    say("ready\n");
    waitForEver();
  }
  if (mode == "wait") {
    say("ready\n");
    waitForEver();
  }
  if (mode == "signals") {  // Says what it gets, and goes on.
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, onSignal);
    say("ready\n");
    waitForEver();
  }
  if (mode == "long-line") {
    static char text[1 << 16];
    std::memset(text, 'x', sizeof(text));
    for (int i = 0; i < 64; ++i) {
      if (write(STDOUT_FILENO, text, sizeof(text)) != sizeof(text)) return 1;
    }
    return 0;
  }
  if (mode == "flood") {  // Until somebody stops it.
    for (;;) {
      if (std::puts("a line among very many") < 0) return 1;
    }
  }
  std::fprintf(stderr, "probe: what is \"%s\"?\n", argc > 1 ? argv[1] : "");
  return 99;
}
