#include "launch/processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "launch/program.h"

namespace colla::launch {
namespace {

constexpr std::chrono::seconds kGrace{2};

std::vector<std::string> environmentWith(const std::map<std::string, std::string>& changes) {
  std::map<std::string, std::string> all = changes;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = std::min(text.find('='), text.size() - 1);
    all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  std::vector<std::string> entries;
  for (const auto& [name, value] : all) entries.push_back(fmt::format("{}={}", name, value));
  return entries;
}

Result<Command> commandOf(const ProcessSpec& spec, int input, int output) {
  Command command;
  command.input = input;
  command.output = command.error = output;
  command.networkNamespace = spec.networkNamespace;
  if (spec.program.empty()) {
    command.body = [spec] {
      prctl(PR_SET_NAME, spec.name.c_str());
      for (const auto& [name, value] : spec.environment) setenv(name.c_str(), value.c_str(), 1);
      return spec.body();
    };
    return command;
  }
  const char* const path = std::getenv("PATH");
  COLLA_TRY_ASSIGN(command.program, findProgram(spec.program.front(), path == nullptr ? "" : path));
  command.arguments = spec.program;
  command.environment = environmentWith(spec.environment);
  return command;
}

}  // namespace

int exitCode(const Status& status) {
  if (!status.ok()) fmt::print(stderr, "{}\n", toString(status));
  return status.ok() ? 0 : 1;
}

void Watch::add(int fd, std::function<void()> react) {
  if (fd < 0) return;
  fds_.push_back({fd, POLLIN, 0});
  reactions_.push_back(std::move(react));
}

void Watch::wait(std::chrono::nanoseconds limit) {
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  if (poll(fds_.data(), fds_.size(), static_cast<int>(milliseconds)) <= 0) return;
  for (std::size_t i = 0; i < fds_.size(); ++i) {
    if (fds_[i].revents != 0) reactions_[i]();
  }
}

Result<std::unique_ptr<Processes>> Processes::start(std::span<const ProcessSpec> specs,
                                                    const Inherited& inherited) {
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::vector<Command> commands;
  std::vector<UniqueFd> writers;  // Closed here once the guardian has its copies.
  std::vector<One> all;
  for (const ProcessSpec& spec : specs) {
    std::array<int, 2> pipe{};
    if (pipe2(pipe.data(), O_CLOEXEC) != 0) {
      return {StatusCode::kIo, fmt::format("start {}: {}", spec.name, std::strerror(errno))};
    }
    One& one = all.emplace_back();
    one.name = spec.name;
    one.heard = spec.heard;
    one.output = UniqueFd(pipe[0]);
    fcntl(pipe[0], F_SETFL, O_NONBLOCK);
    writers.emplace_back(pipe[1]);
    auto command = commandOf(spec, null.get(), pipe[1]);
    if (!command.ok()) return command.status().withContext(spec.name);
    commands.push_back(*std::move(command));
  }
  std::fflush(nullptr);  // Or the forks would write it a second time.
  COLLA_TRY_ASSIGN(Guardian guardian, Guardian::create(commands, inherited));
  guardian.send({Order::Kind::kStart});
  return std::unique_ptr<Processes>(new Processes(std::move(all), std::move(guardian)));
}

Processes::~Processes() {
  askToEnd();
  while (!allEnded() && !patience_->expired()) {
    Watch watch;
    addTo(watch);
    watch.wait(patience_->remaining());
  }
}

void Processes::askToEnd() {
  if (patience_) return;
  patience_ = Deadline::after(kGrace);
  guardian_.send({Order::Kind::kSignal, SIGTERM});
}

bool Processes::allEnded() const {
  return std::ranges::all_of(all_, [](const One& one) { return one.end.has_value(); });
}

void Processes::addTo(Watch& watch) {
  // Output first, so that last lines are there before the end is.
  for (One& one : all_) watch.add(one.output.get(), [&one] { readOutput(one); });
  if (!allEnded()) watch.add(guardian_.fd(), [this] { takeEvents(); });
}

void Processes::readOutput(One& one) {
  std::array<char, 4096> buffer;
  while (one.output.valid()) {
    const ssize_t count = read(one.output.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return one.output.reset();
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(count));
    one.tail.add(bytes);
    if (!one.heard) continue;
    one.line += bytes;
    for (std::size_t end = 0; (end = one.line.find('\n')) != std::string::npos;) {
      const std::string line = one.line.substr(0, end);
      one.line.erase(0, end + 1);
      one.heard(line);
    }
  }
}

void Processes::takeEvents() {
  using Kind = Event::Kind;
  while (true) {
    const auto event = guardian_.next();
    if (!event.ok() && event.status().code() == StatusCode::kCancelled) return;
    if (!event.ok() || event->kind == Kind::kEnded) {
      for (One& one : all_) {
        if (!one.end) ended(one, "its guardian", true);
      }
      return;
    }
    One& one = all_[static_cast<std::size_t>(event->process)];
    const int value = event->value;
    switch (event->kind) {
      case Kind::kStarted:
        one.pid = value;
        break;
      case Kind::kNotStarted:
        ended(one, fmt::format("no start: {}", std::strerror(value)), true);
        break;
      case Kind::kExited:
        ended(one, fmt::format("exit code {}", value), value != 0);
        break;
      case Kind::kKilled:
        ended(one, fmt::format("signal {} ({})", value, strsignal(value)), true);
        break;
      case Kind::kLost:
      case Kind::kEnded:
        break;
    }
  }
}

void Processes::ended(One& one, std::string end, bool failed) {
  readOutput(one);
  one.end = std::move(end);
  one.failed = failed;
}

std::string Processes::obituary(const One& one) {
  std::string text = fmt::format("{} ended with {}", one.name, one.end.value_or("nothing yet"));
  const auto lines = one.tail.lines();
  if (!lines.empty()) text += fmt::format("; its last lines:\n{}", fmt::join(lines, "\n"));
  return text;
}

}  // namespace colla::launch
