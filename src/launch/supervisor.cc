#include "launch/supervisor.h"

#include <algorithm>
#include <csignal>

namespace colla::launch {
namespace {

using Kind = Supervisor::Action::Kind;

}  // namespace

bool endsJob(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

Supervisor::Supervisor(const Options& options, TimePoint now)
    : options_(options),
      ends_(static_cast<std::size_t>(options.workers + options.servers)),
      workersLeft_(options.workers),
      left_(options.workers + options.servers) {
  if (options.timeout) timeoutAt_ = now + *options.timeout;
}

// Asks all to end with `signal`, for a reason that counts only if it is the first one.
Supervisor::Action Supervisor::begin(Cause cause, int culprit, int value, int signal,
                                     TimePoint now) {
  cause_ = cause;
  culprit_ = culprit;
  value_ = value;
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    if (!ends_[i]) running_.push_back(static_cast<int>(i));
  }
  if (left_ == 0) return kill();  // Nobody to ask; their own children may be left.
  phase_ = Phase::kEnding;
  phaseEnds_ = now + options_.grace;
  return {Kind::kSignal, signal};
}

Supervisor::Action Supervisor::kill() {
  if (phase_ == Phase::kKilling) return {};
  phase_ = Phase::kKilling;
  phaseEnds_ = TimePoint::max();
  return {Kind::kEnd};
}

Supervisor::Action Supervisor::ended(int process, End end, TimePoint now) {
  auto& slot = ends_[static_cast<std::size_t>(process)];
  if (slot) return {};
  slot = end;
  --left_;
  if (process < options_.workers) --workersLeft_;
  const bool asked = phase_ == Phase::kEnding || phase_ == Phase::kKilling;
  if (end.failed() && !asked) return begin(Cause::kFailed, process, end.value, SIGTERM, now);
  if (left_ == 0) return kill();
  if (workersLeft_ == 0 && phase_ == Phase::kRunning) {
    phase_ = Phase::kServersLeft;
    phaseEnds_ = now + options_.grace;
  }
  return {};
}

Supervisor::Action Supervisor::notStarted(int process, int error, TimePoint now) {
  if (cause_ != Cause::kNone) return {};
  (void)begin(Cause::kNotStarted, process, error, SIGKILL, now);
  return kill();  // A job that is not complete has nothing to finish.
}

Supervisor::Action Supervisor::signalled(int signal, TimePoint now) {
  if (phase_ == Phase::kKilling) return {};
  if (!endsJob(signal)) return {Kind::kSignal, signal};
  if (phase_ != Phase::kEnding) return begin(Cause::kSignal, -1, signal, signal, now);
  if (signal == SIGINT) return kill();
  return {Kind::kSignal, signal};
}

Supervisor::Action Supervisor::outputClosed(TimePoint now) {
  if (phase_ == Phase::kEnding || phase_ == Phase::kKilling) return {};
  return begin(Cause::kOutputClosed, -1, 0, SIGTERM, now);
}

Supervisor::Action Supervisor::guardianLost() {
  if (cause_ == Cause::kNone) cause_ = Cause::kGuardianLost;
  return kill();
}

Supervisor::Action Supervisor::tick(TimePoint now) {
  const bool asked = phase_ == Phase::kEnding || phase_ == Phase::kKilling;
  if (!asked && now >= timeoutAt_) return begin(Cause::kTimeout, -1, 0, SIGTERM, now);
  if (now < phaseEnds_) return {};
  if (phase_ == Phase::kServersLeft) {
    // Their work is done, so that we have to end them is no failure.
    phase_ = Phase::kEnding;
    phaseEnds_ = now + options_.grace;
    return {Kind::kSignal, SIGTERM};
  }
  return kill();
}

TimePoint Supervisor::nextDeadline() const {
  const bool asked = phase_ == Phase::kEnding || phase_ == Phase::kKilling;
  return asked ? phaseEnds_ : std::min(phaseEnds_, timeoutAt_);
}

}  // namespace colla::launch
