#include "launch/front.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

namespace colla::launch {
namespace {

// For poll(): rounded up, so that the deadline has passed when it returns.
int millisecondsUntil(TimePoint when, TimePoint now) {
  if (when <= now) return 0;
  if (when == TimePoint::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - now);
  return static_cast<int>(std::min<std::int64_t>(left.count(), 3'600'000));
}

}  // namespace

void Front::run() {
  guards_.send({Order::Kind::kStart});
  while (!ended_) wait();
  flush();
}

void Front::flush() {
  while (!output_.done() && !impatient_) {
    if (Clock::real().now() >= supervisor_.outputUntil()) {
      supervisor_.outputLeft();
      break;
    }
    wait();
  }
  output_.writeNow();
}

// One round: waits until there is something to do, and does it.
void Front::wait() {
  std::vector<pollfd> polls;
  polls.push_back({signals_.get(), POLLIN, 0});
  input_.prepare(polls);
  const std::size_t guardsAt = polls.size();
  if (!ended_) guards_.prepare(polls);
  const std::size_t outputAt = polls.size();
  output_.prepare(polls);

  TimePoint now = Clock::real().now();
  const TimePoint deadline = std::min(
      {supervisor_.nextDeadline(), output_.nextDeadline(), input_.nextDeadline(now),
       ended_ ? supervisor_.outputUntil() : std::min(guardsUntil_, guards_.nextDeadline())});
  if (poll(polls.data(), polls.size(), millisecondsUntil(deadline, now)) < 0) {
    for (pollfd& entry : polls) entry.revents = 0;
  }
  now = Clock::real().now();
  // Output first, so that a process's last words are in before its end is.
  const bool events = !ended_ && guards_.handle(polls, guardsAt, now);
  output_.handle(polls.data() + outputAt, now);
  input_.handle(polls[1]);
  if (output_.error() != 0) act(supervisor_.outputLost(output_.error(), now));
  if (polls[0].revents != 0) handleSignals(now);
  if (events) handleEvents(now);
  act(supervisor_.tick(now));
  if (!ended_ && now >= guardsUntil_) endWithoutGuards();
  tellLosses();
}

void Front::tellLosses() {
  const auto& lost = supervisor_.lost();
  // At the end the report tells of those that nobody was told of.
  for (; !ended_ && lossesTold_ < lost.size(); ++lossesTold_) {
    output_.say(notice_(lost[lossesTold_]));
  }
}

void Front::act(Supervisor::Action action) {
  switch (action.kind) {
    case Supervisor::Action::Kind::kNothing:
      return;
    case Supervisor::Action::Kind::kSignal:
      guards_.send({Order::Kind::kSignal, action.signal});
      // What is stopped would not notice.
      if (endsJob(action.signal)) guards_.send({Order::Kind::kSignal, SIGCONT});
      return;
    case Supervisor::Action::Kind::kEnd:
      guards_.send({Order::Kind::kEnd});
      guardsUntil_ = Clock::real().now() + guards_.endLimit();
      return;
  }
}

void Front::handleSignals(TimePoint now) {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    const auto signal = static_cast<int>(info.ssi_signo);
    if (supervisor_.killing()) {
      impatient_ = impatient_ || signal == SIGINT || signal == SIGTERM;
      continue;
    }
    if (signal == SIGWINCH) output_.resize();
    act(supervisor_.signalled(signal, now));
    if (signal == SIGTSTP) {
      guards_.pause();
      kill(getpid(), SIGSTOP);
    }
  }
}

void Front::handleEvents(TimePoint now) {
  while (!ended_) {
    const auto event = guards_.next();
    if (!event.ok() && event.status().code() == StatusCode::kCancelled) return;
    if (!event.ok()) {
      (void)supervisor_.guardianLost();
      return endWithoutGuards();
    }
    switch (event->kind) {
      case Event::Kind::kStarted:
        break;
      case Event::Kind::kNotStarted:
        act(supervisor_.notStarted(event->process, event->value));
        break;
      case Event::Kind::kExited:
        act(supervisor_.ended(event->process, {.killed = false, .value = event->value}, now));
        break;
      case Event::Kind::kKilled:
        act(supervisor_.ended(event->process, {.killed = true, .value = event->value}, now));
        break;
      case Event::Kind::kLost:
        act(supervisor_.ended(event->process, {.killed = true, .value = SIGKILL, .lost = true},
                              now));
        break;
      case Event::Kind::kEnded:
        guards_.wait();
        return ended(event->value);
    }
  }
}

void Front::endWithoutGuards() {
  const auto left = endDescendants(spared_, Deadline::after(kEndLimit), [](pid_t, int) {});
  ended(static_cast<int>(left.size()));
}

void Front::ended(int processesLeft) {
  ended_ = true;
  output_.noMoreWriters();
  if (processesLeft > 0) {
    output_.say(fmt::format("{} processes could not be killed and are left", processesLeft));
  }
}

}  // namespace colla::launch
