#include "train/interrupt.h"

#include <unistd.h>

#include <atomic>

namespace colla::train {
namespace {

// A signal handler can reach nothing else.
std::atomic<int> requests{0};
std::atomic<bool> limitIsNear{false};

void request(int signal) {
  constexpr int kSignalled = 128;
  if (requests.fetch_add(1) == 0) return;
  constexpr char kText[] = "left at once: nothing more is saved\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  _exit(kSignalled + signal);
}

void requestByLimit(int) { limitIsNear = true; }

}  // namespace

Interrupt::Interrupt() {
  requests = 0;
  limitIsNear = false;
  struct sigaction action {};
  action.sa_handler = request;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &interrupt_);
  sigaction(SIGTERM, &action, &terminate_);
  action.sa_handler = requestByLimit;
  sigaction(SIGUSR1, &action, &limit_);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
  sigaction(SIGUSR1, &limit_, nullptr);
}

bool Interrupt::requested() { return requests > 0 || limitIsNear; }

}  // namespace colla::train
