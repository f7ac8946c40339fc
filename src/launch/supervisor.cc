#include "launch/supervisor.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

namespace colla::launch {
namespace {

using Kind = Supervisor::Action::Kind;

// Peers of a process that is gone may exit or abort, but get none of these signals because of it.
bool isFault(const End& end) {
  constexpr std::array kFaults = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGKILL, SIGSYS};
  return end.killed && std::ranges::find(kFaults, end.value) != kFaults.end();
}

// It left because it was asked to, by its own handler or without one.
bool isInterrupted(const End& end) {
  return end.killed ? end.value == SIGINT : end.value == 128 + SIGINT;
}

}  // namespace

bool endsJob(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

Supervisor::Supervisor(const Options& options, TimePoint now)
    : options_(options),
      ends_(static_cast<std::size_t>(options.workers + options.servers)),
      follows_(ends_.size()),
      workersLeft_(options.workers),
      left_(options.workers + options.servers) {
  if (options.timeout) timeoutAt_ = now + *options.timeout;
}

void Supervisor::blame(Cause cause, int culprit, int value) {
  cause_ = cause;
  culprit_ = culprit;
  value_ = value;
  running_.clear();
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    if (!ends_[i]) running_.push_back(static_cast<int>(i));
  }
}

void Supervisor::settle(int process, TimePoint now) {
  blame(Cause::kFailed, process, endOf(process)->value);
  phase_ = Phase::kSettling;
  // One that only followed says that a different one has failed, which may take its time to end.
  phaseEnds_ = now + (follows(process) ? options_.grace : std::min(options_.grace, kSettle));
}

Supervisor::Action Supervisor::ask(int signal, TimePoint now) {
  phase_ = Phase::kEnding;
  const bool lost = std::ranges::any_of(ends_, [](const auto& end) { return end && end->lost; });
  phaseEnds_ = now + (lost ? std::min(options_.grace, kGraceAfterLoss) : options_.grace);
  return {Kind::kSignal, signal};
}

Supervisor::Action Supervisor::kill() {
  if (phase_ == Phase::kKilling) return {};
  phase_ = Phase::kKilling;
  phaseEnds_ = TimePoint::max();
  return {Kind::kEnd};
}

bool Supervisor::canSpare(int process) const {
  return process > 0 && process < options_.workers &&
         lost_.size() + losing_.size() < static_cast<std::size_t>(options_.spareWorkers);
}

void Supervisor::acceptLosses() {
  lost_.insert(lost_.end(), losing_.begin(), losing_.end());
  losing_.clear();
  losingUntil_ = TimePoint::max();
}

// What failed in the moment before has to do with it.
void Supervisor::fail(int process, TimePoint now) {
  std::vector<int> suspects = std::exchange(losing_, {});
  losingUntil_ = TimePoint::max();
  suspects.push_back(process);
  auto culprit =
      std::ranges::find_if(suspects, [&](int suspect) { return isFault(*endOf(suspect)); });
  if (culprit == suspects.end()) {
    culprit = std::ranges::find_if_not(suspects, [&](int suspect) { return follows(suspect); });
  }
  settle(culprit == suspects.end() ? suspects.front() : *culprit, now);
}

bool Supervisor::isFailure(const End& end) const {
  if (waitsPatiently()) return end.failed() && !isInterrupted(end);
  return end.failed() && (phase_ == Phase::kRunning || phase_ == Phase::kServersLeft);
}

Supervisor::Action Supervisor::ended(int process, End end, TimePoint now) {
  auto& slot = ends_[static_cast<std::size_t>(process)];
  if (slot) return {};
  if (options_.patient && !end.killed && end.value == kExitFollowed) {
    follows_[static_cast<std::size_t>(process)] = true;
    end.value = 1;
  }
  slot = end;
  --left_;
  if (process < options_.workers) --workersLeft_;
  if (phase_ == Phase::kSettling) {
    const bool led = follows(culprit_) && end.failed() && !follows(process);
    if (led || (isFault(end) && !isFault(*endOf(culprit_)))) culprit_ = process;
    if (led) phaseEnds_ = now + std::min(options_.grace, kSettle);
  } else if (isFailure(end) && !canSpare(process)) {
    fail(process, now);
  } else if (isFailure(end)) {
    if (losing_.empty()) losingUntil_ = now + std::min(options_.grace, kSettle);
    losing_.push_back(process);
  }
  if (waitsPatiently() && workersLeft_ == 0) {
    phaseEnds_ = now + options_.grace;  // Servers have nobody left to wait for.
  }
  if (left_ == 0) {
    acceptLosses();
    return kill();  // Their own children may be left.
  }
  if (workersLeft_ == 0 && phase_ == Phase::kRunning) {
    phase_ = Phase::kServersLeft;
    phaseEnds_ = now + options_.grace;
  }
  return {};
}

Supervisor::Action Supervisor::notStarted(int process, int error) {
  if (cause_ == Cause::kNone) blame(Cause::kNotStarted, process, error);
  return kill();  // A job that is not complete has nothing to finish.
}

Supervisor::Action Supervisor::signalled(int signal, TimePoint now) {
  if (phase_ == Phase::kKilling) return {};
  if (!endsJob(signal)) return {Kind::kSignal, signal};
  const bool again = signal == SIGINT && interrupted_;
  if (again || (signal == SIGINT && phase_ == Phase::kEnding)) return kill();
  interrupted_ = interrupted_ || signal == SIGINT;
  if (phase_ == Phase::kEnding) {
    if (waitsPatiently()) phaseEnds_ = now + options_.grace;  // This one is less of a request.
    return {Kind::kSignal, signal};
  }
  const bool patient = options_.patient && signal == SIGINT && phase_ == Phase::kRunning;
  if (cause_ == Cause::kNone) blame(Cause::kSignal, -1, signal);
  const Action action = ask(signal, now);
  if (patient) phaseEnds_ = TimePoint::max();
  return action;
}

Supervisor::Action Supervisor::outputLost(int error, TimePoint now) {
  if (phase_ == Phase::kEnding || phase_ == Phase::kKilling) return {};
  if (cause_ == Cause::kNone) blame(Cause::kOutputLost, -1, error);
  return ask(SIGTERM, now);
}

void Supervisor::outputLeft() {
  if (cause_ == Cause::kNone) blame(Cause::kTimeout, -1, 0);
}

Supervisor::Action Supervisor::guardianLost() {
  if (cause_ == Cause::kNone) blame(Cause::kGuardianLost, -1, 0);
  return kill();
}

Supervisor::Action Supervisor::tick(TimePoint now) {
  const bool running = phase_ == Phase::kRunning || phase_ == Phase::kServersLeft;
  if (running && now >= timeoutAt_) {
    blame(Cause::kTimeout, -1, 0);
    return ask(SIGTERM, now);
  }
  if (now >= losingUntil_) acceptLosses();
  if (now < phaseEnds_) return {};
  // Servers have nothing left to do once the workers are done: to end them then is no failure.
  if (phase_ == Phase::kServersLeft || phase_ == Phase::kSettling) return ask(SIGTERM, now);
  return kill();
}

TimePoint Supervisor::nextDeadline() const {
  const bool running = phase_ == Phase::kRunning || phase_ == Phase::kServersLeft;
  return std::min(losingUntil_, running ? std::min(phaseEnds_, timeoutAt_) : phaseEnds_);
}

}  // namespace colla::launch
