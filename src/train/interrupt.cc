#include "train/interrupt.h"

#include <unistd.h>

#include <atomic>

namespace colla::train {
namespace {

// A signal handler can reach nothing else.
std::atomic<int> requests{0};

void request(int signal) {
  constexpr int kSignalled = 128;
  if (requests.fetch_add(1) > 0) _exit(kSignalled + signal);
}

}  // namespace

Interrupt::Interrupt() {
  requests = 0;
  struct sigaction action {};
  action.sa_handler = request;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &interrupt_);
  sigaction(SIGTERM, &action, &terminate_);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
}

bool Interrupt::requested() { return requests > 0; }

}  // namespace colla::train
