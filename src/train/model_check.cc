#include "train/model_check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <variant>

#include "base/unique_fd.h"
#include "colla/error.h"
#include "launch/start_workers.h"
#include "train/exchange/updater.h"
#include "train/groups.h"
#include "train/optimizer_trial.h"
#include "train/replica.h"
#include "train/user_code.h"
#include "train/watches.h"

namespace colla::train {
namespace {

Status checked(const Task& task, const RunPlan& plan) {
  try {
    return checkModel(task, plan);
  } catch (const Error& error) {
    return error.status();
  } catch (const std::exception& error) {
    const std::string text = error.what();  // libtorch adds where it was thrown.
    return {StatusCode::kInternal, text.substr(0, text.find('\n'))};
  }
}

// The code, then the message; nothing if all is well.
void report(int fd, const Status& status) {
  if (status.ok()) return;
  const std::string text = fmt::format("{}{}", static_cast<char>(status.code()), status.message());
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t count = write(fd, text.data() + sent, text.size() - sent);
    if (count < 0 && errno != EINTR) return;
    if (count > 0) sent += static_cast<std::size_t>(count);
  }
}

// What comes until the other end is closed; nothing if it is still open at the deadline.
std::optional<std::string> readAll(int fd, Deadline deadline) {
  std::string text;
  std::array<char, 4096> part;
  while (!deadline.expired()) {
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining());
    if (poll(&wait, 1, static_cast<int>(left.count())) <= 0) continue;
    const ssize_t count = read(fd, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  return std::nullopt;
}

}  // namespace

bool goesByEvaluations(const Task& task, const RunPlan& plan) {
  return plan.options.earlyStop || !plan.options.keepBest.empty() ||
         std::holds_alternative<PlateauRate>(scheduleOf(task, plan).shape);
}

Status checkModel(const Task& task, const RunPlan& plan) {
  Replica replica(modelMakerOf(task), {.seed = plan.seed});
  if (goesByEvaluations(task, plan)) {
    const auto test = openPart(task, Part::kTest);
    if (!test.ok() && test.status().code() != StatusCode::kNotFound) return test.status();
    (void)watchesOf(replica.model(), plan.options, scheduleOf(task, plan), test.ok());
  }
  COLLA_TRY(checkOptimizer(task.optimizer, replica.parameters()));
  return tryOptimizer(task, plan, replica.parameters());
}

Status checkModelAside(const Task& task, const RunPlan& plan, Deadline deadline) {
  int ends[2];
  if (launch::threadsOfSelf() > 1 || pipe2(ends, O_CLOEXEC) != 0) return {};
  UniqueFd readEnd(ends[0]);
  UniqueFd writeEnd(ends[1]);
  std::fflush(nullptr);  // Nothing is written twice.
  std::cout.flush();
  const pid_t child = fork();
  if (child < 0) return {};
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    report(writeEnd.get(), checked(task, plan));
    _exit(0);
  }
  writeEnd.reset();
  const auto text = readAll(readEnd.get(), deadline);
  kill(child, SIGKILL);  // It has said all that it had to say, or the time is up.
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!text || text->empty()) return {};
  return Status(static_cast<StatusCode>(text->front()), text->substr(1));
}

}  // namespace colla::train
