#include "launch/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace colla::launch {
namespace {

std::string howItEnded(const End& end) {
  if (end.lost) return "was lost with its host";
  if (!end.killed) return fmt::format("ended with exit code {}", end.value);
  const std::string_view hint =
      end.value == SIGKILL ? "; the kernel does that when memory runs out" : "";
  return fmt::format("was killed by {} (signal {}{})", signalName(end.value), end.value, hint);
}

// Why hosts are lost, for the end of a report on a process.
std::string hostLosses(const LostHosts& lostHosts) {
  std::string text;
  for (const auto& [host, why] : lostHosts) text += fmt::format("; host {} is lost: {}", host, why);
  return text;
}

std::string lastLines(const Output& output, std::size_t process) {
  std::string_view from = "standard error";
  auto lines = output.tail(process, kErr).lines();
  if (lines.empty()) {
    from = "standard output";
    lines = output.tail(process, kOut).lines();
  }
  if (lines.empty()) return "; it said nothing";
  std::string text = fmt::format("; its last lines on {}:", from);
  for (const std::string& line : lines) text += "\n  | " + line;
  return text;
}

// What may be behind the error that a process could not be started with.
std::string_view hintFor(int error) {
  switch (error) {
    case ENOENT:
      return " (or its interpreter is missing)";
    case EAGAIN:
      return " (too many processes? see `ulimit -u`)";
    case EMFILE:
    case ENFILE:
      return " (see `ulimit -n`)";
    default:
      return "";
  }
}

// As shells have them for a program that can't be run; what the machine lacks is a plain failure.
int exitCodeFor(int error) {
  if (error == ENOENT) return kExitNotFound;
  return error == EACCES || error == ENOEXEC ? kExitNotExecutable : kExitFailure;
}

std::string stillRunning(const Supervisor& supervisor, const Plan& plan) {
  constexpr std::size_t kShown = 8;
  std::string text;
  const auto& running = supervisor.running();
  for (std::size_t i = 0; i < running.size() && i < kShown; ++i) {
    if (i > 0) text += ", ";
    text += plan.processes[static_cast<std::size_t>(running[i])].name();
  }
  if (running.size() > kShown) text += fmt::format(" and {} more", running.size() - kShown);
  return text;
}

// "worker 2, which was killed by …, and worker 3, which …"; empty if none was lost.
std::string losses(const Supervisor& supervisor, const Plan& plan) {
  std::string text;
  for (const int worker : supervisor.lost()) {
    text += fmt::format("{}{}, which {}", text.empty() ? "" : ", and ",
                        plan.processes[static_cast<std::size_t>(worker)].name(),
                        howItEnded(*supervisor.endOf(worker)));
  }
  return text;
}

// For the end of a report on something else.
std::string afterLosses(const Supervisor& supervisor, const Plan& plan) {
  const std::string before = losses(supervisor, plan);
  return before.empty() ? "" : " (the job had gone on without " + before + ")";
}

// Every process ended by itself, and none was killed that was not spared.
bool allLeft(const Supervisor& supervisor, const Plan& plan) {
  for (std::size_t i = 0; i < plan.processes.size(); ++i) {
    if (std::ranges::find(supervisor.lost(), static_cast<int>(i)) != supervisor.lost().end()) {
      continue;
    }
    const auto end = supervisor.endOf(static_cast<int>(i));
    if (!end || end->killed) return false;
  }
  return true;
}

}  // namespace

std::string signalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

std::string lossNotice(int worker, const Supervisor& supervisor, const Plan& plan,
                       const RunOptions& options, const Output& output,
                       const LostHosts& lostHosts) {
  const auto& lost = supervisor.lost();
  const auto process = static_cast<std::size_t>(worker);
  return fmt::format("{} on host {} {}{}; the job goes on without it ({} of {} spare){}",
                     plan.processes[process].name(), plan.processes[process].host,
                     howItEnded(*supervisor.endOf(worker)), hostLosses(lostHosts),
                     std::ranges::find(lost, worker) - lost.begin() + 1, options.spareWorkers,
                     lastLines(output, process));
}

Report makeReport(const Supervisor& supervisor, const Plan& plan, const RunOptions& options,
                  const Output& output, const LostHosts& lostHosts) {
  const auto culprit = static_cast<std::size_t>(supervisor.culprit());
  switch (supervisor.cause()) {
    case Cause::kNone:
      if (supervisor.lost().empty()) return {};
      return {fmt::format("the job is done without {}", losses(supervisor, plan)), 0};
    case Cause::kFailed: {
      const End end = *supervisor.endOf(supervisor.culprit());
      return {fmt::format("{} on host {} {}{}{}{}", plan.processes[culprit].name(),
                          plan.processes[culprit].host, howItEnded(end), hostLosses(lostHosts),
                          afterLosses(supervisor, plan), lastLines(output, culprit)),
              end.lost     ? kExitFailure
              : end.killed ? 128 + end.value
                           : end.value};
    }
    case Cause::kNotStarted: {
      return {fmt::format("cannot start {} on host {}: {}: {}{}", plan.processes[culprit].name(),
                          plan.processes[culprit].host, plan.program,
                          std::strerror(supervisor.value()), hintFor(supervisor.value())),
              exitCodeFor(supervisor.value())};
    }
    case Cause::kSignal:
      if (options.patient && supervisor.value() == SIGINT && allLeft(supervisor, plan)) {
        // Worker 0 has said what there is to say, but for those that were lost just before.
        const std::string lost = losses(supervisor, plan);
        return {lost.empty() ? "" : "the job left without " + lost, supervisor.endOf(0)->value};
      }
      return {fmt::format("ended by {}{}", signalName(supervisor.value()),
                          afterLosses(supervisor, plan)),
              128 + supervisor.value()};
    case Cause::kTimeout: {
      const double limit = std::chrono::duration<double>(*options.timeout).count();
      if (supervisor.running().empty()) {
        return {fmt::format("nobody took the job's output within {:g} s (--timeout)", limit),
                kExitTimeout};
      }
      return {fmt::format("the job did not end within {:g} s (--timeout) and was ended; still "
                          "running: {}",
                          limit, stillRunning(supervisor, plan)),
              kExitTimeout};
    }
    case Cause::kOutputLost:
      if (supervisor.value() == EPIPE) return {"", 128 + SIGPIPE};  // As other programs end.
      return {fmt::format("cannot pass on the output: {}", std::strerror(supervisor.value())),
              kExitFailure};
    case Cause::kGuardianLost:
      return {"the job's guardian process was killed; every process was ended", kExitFailure};
  }
  return {};
}

}  // namespace colla::launch
