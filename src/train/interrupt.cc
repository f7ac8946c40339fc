#include "train/interrupt.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cstring>
#include <utility>

namespace colla::train {
namespace {

// A signal handler can reach nothing else.
std::atomic<int> requests{0};
std::atomic<bool> limitIsNear{false};
std::atomic<std::int64_t> savedStep{-1};
std::atomic<const char*> wayOnFrom{nullptr};

void say(const char* text, std::size_t length) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, length);
}
void say(const char* text) { say(text, std::strlen(text)); }

void request(int signal) {
  constexpr int kSignalled = 128;
  if (requests.fetch_add(1) == 0) return;
  say("left at once: ");
  const char* const wayOn = wayOnFrom;
  if (const std::int64_t step = savedStep; step >= 0 && wayOn != nullptr) {
    std::array<char, 20> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), step).ptr;
    say("step ");
    say(digits.data(), static_cast<std::size_t>(end - digits.data()));
    say(wayOn);
    say("\n");
  } else {
    say("nothing more is saved\n");
  }
  _exit(kSignalled + signal);
}

void requestByLimit(int) { limitIsNear = true; }

}  // namespace

Interrupt::Interrupt(std::string wayOn) : wayOn_(std::move(wayOn)) {
  requests = 0;
  savedStep = -1;
  wayOnFrom = wayOn_.empty() ? nullptr : wayOn_.c_str();
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
  wayOnFrom = nullptr;
}

bool Interrupt::requested() { return requests > 0 || limitIsNear; }

void Interrupt::saved(std::int64_t step) { savedStep = step; }

}  // namespace colla::train
