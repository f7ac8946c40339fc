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

// What the guardian gets to end everything. If it is only slow, no harm is done: the front then
// does the same.
constexpr auto kGuardianLimit = std::chrono::seconds(3);

}  // namespace

void Front::run() {
  guardian_.send({Order::Kind::kStart});
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
  polls.push_back({ended_ ? -1 : guardian_.fd(), POLLIN, 0});
  input_.prepare(polls);
  const std::size_t outputAt = polls.size();
  output_.prepare(polls);

  TimePoint now = Clock::real().now();
  const TimePoint deadline =
      std::min({supervisor_.nextDeadline(), output_.nextDeadline(), input_.nextDeadline(now),
                ended_ ? supervisor_.outputUntil() : guardianUntil_});
  if (poll(polls.data(), polls.size(), millisecondsUntil(deadline, now)) < 0) {
    for (pollfd& entry : polls) entry.revents = 0;
  }
  now = Clock::real().now();
  // Output first, so that a process's last words are in before its end is.
  output_.handle(polls.data() + outputAt, now);
  input_.handle(polls[2]);
  if (output_.error() != 0) act(supervisor_.outputLost(output_.error(), now));
  if (polls[0].revents != 0) handleSignals(now);
  if (polls[1].revents != 0) handleEvents(now);
  act(supervisor_.tick(now));
  if (!ended_ && now >= guardianUntil_) endWithoutGuardian();
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
      guardian_.send({Order::Kind::kSignal, action.signal});
      // What is stopped would not notice.
      if (endsJob(action.signal)) guardian_.send({Order::Kind::kSignal, SIGCONT});
      return;
    case Supervisor::Action::Kind::kEnd:
      guardian_.send({Order::Kind::kEnd});
      guardianUntil_ = Clock::real().now() + kGuardianLimit;
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
    if (signal == SIGTSTP) kill(getpid(), SIGSTOP);
  }
}

void Front::handleEvents(TimePoint now) {
  while (!ended_) {
    const auto event = guardian_.next();
    if (!event.ok() && event.status().code() == StatusCode::kCancelled) return;
    if (!event.ok()) {
      (void)supervisor_.guardianLost();
      return endWithoutGuardian();
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
      case Event::Kind::kEnded:
        guardian_.wait();
        return ended(event->value);
    }
  }
}

void Front::endWithoutGuardian() {
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
