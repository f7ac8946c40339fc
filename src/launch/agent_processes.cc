#include "launch/agent_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "launch/copies.h"
#include "launch/process_tree.h"
#include "rendezvous/secret.h"
#include "rendezvous/secret_descriptor.h"
#include "rendezvous/secret_munge.h"

namespace colla::launch {
namespace {

constexpr std::size_t kMostQueued = 1 << 20;

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
};

Result<Pipe> makePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return {StatusCode::kIo,
            fmt::format("no pipe for a process: {} (see `ulimit -n`)", std::strerror(errno))};
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::string nameOf(const std::string& variable) { return variable.substr(0, variable.find('=')); }

// This host's own where the front has sent none: those it left out are about hosts.
void addOwn(std::vector<std::string>& environment) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name = nameOf(*entry);
    const bool given = std::ranges::any_of(
        environment, [&](const std::string& other) { return nameOf(other) == name; });
    if (belongsToHost(name) && !given) environment.emplace_back(*entry);
  }
}

// A script that is not here may be among the copies. In the folder where the processes run.
std::vector<std::string> argumentsOf(const Fields& job) {
  std::vector<std::string> arguments = job.all("argument");
  if (job["copies"].empty()) return arguments;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (access(arguments[i].c_str(), F_OK) == 0) continue;
    const std::string copy = Copies::placeOf(job["copies"], arguments[i]);
    if (!arguments[i].empty() && access(copy.c_str(), R_OK) == 0) arguments[i] = copy;
  }
  return arguments;
}

std::vector<Command> readCommands(const Fields& job, int secret) {
  std::vector<Command> commands;
  for (const auto& [name, value] : job.entries()) {
    if (name == "process") {
      commands.push_back({.program = job["program"],
                          .arguments = argumentsOf(job),
                          .environment = {fmt::format("COLLA_SECRET_FD={}", secret)},
                          .secret = secret});
    } else if (name == "variable" && !commands.empty()) {
      commands.back().environment.push_back(value);
    }
  }
  for (Command& command : commands) {
    command.environment.push_back("PWD=" + job["folder"]);
    addOwn(command.environment);
  }
  return commands;
}

}  // namespace

bool belongsToHost(std::string_view variable) {
  constexpr std::array<std::string_view, 12> kNames = {"DBUS_SESSION_BUS_ADDRESS",
                                                       "DISPLAY",
                                                       "HOME",
                                                       "HOSTNAME",
                                                       "LOGNAME",
                                                       "MAIL",
                                                       "OLDPWD",
                                                       "PWD",
                                                       "SHELL",
                                                       "SHLVL",
                                                       "TMPDIR",
                                                       "USER"};
  return std::ranges::find(kNames, variable) != kNames.end() || variable.starts_with("SSH_") ||
         variable.starts_with("XDG_");
}

Result<AgentProcesses> AgentProcesses::start(const Fields& job) {
  std::string hex = job["secret"];
  if (!job["sealed secret"].empty()) {
    COLLA_TRY_ASSIGN(hex, rendezvous::mungeOpen(job["sealed secret"]));
  }
  const auto secret = rendezvous::bytesFromHex(hex);
  if (!secret) return {StatusCode::kInvalidArgument, "the job's secret did not arrive"};
  COLLA_TRY_ASSIGN(const UniqueFd inherited, rendezvous::makeSecretDescriptor(*secret));
  if (chdir(job["folder"].c_str()) != 0) {
    return {StatusCode::kIo,
            fmt::format("can't enter {}: {}", job["folder"], std::strerror(errno))};
  }
  std::vector<Command> commands = readCommands(job, inherited.get());
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Pipe input;
  std::vector<Source> sources;
  std::vector<UniqueFd> writers;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    commands[i].input = null.get();
    for (const std::uint8_t stream : {std::uint8_t{0}, std::uint8_t{1}}) {
      COLLA_TRY_ASSIGN(Pipe pipe, makePipe());
      fcntl(pipe.reader.get(), F_SETFL, O_NONBLOCK);
      (stream == 0 ? commands[i].output : commands[i].error) = pipe.writer.get();
      sources.push_back({static_cast<std::uint32_t>(i), stream, std::move(pipe.reader)});
      writers.push_back(std::move(pipe.writer));
    }
  }
  if (!job["input"].empty() && !commands.empty()) {
    COLLA_TRY_ASSIGN(input, makePipe());
    fcntl(input.writer.get(), F_SETFL, O_NONBLOCK);
    commands.front().input = input.reader.get();
  }
  Inherited inheritable = Inherited::current();
  inheritable.brokenPipe.sa_handler = SIG_DFL;
  COLLA_TRY_ASSIGN(Guardian guardian, Guardian::create(commands, inheritable));
  guardian.send({Order::Kind::kStart});
  return AgentProcesses(std::move(guardian), std::move(sources), std::move(input.writer));
}

void AgentProcesses::prepare(std::vector<pollfd>& polls, std::size_t queued) {
  polls.push_back({guardian_.fd(), POLLIN, 0});
  polls.push_back({pending_.empty() ? -1 : input_.get(), POLLOUT, 0});
  polled_.clear();
  for (Source& source : sources_) {
    if (!source.reader.valid() || queued > kMostQueued) continue;
    polls.push_back({source.reader.get(), POLLIN, 0});
    polled_.push_back(&source);
  }
}

bool AgentProcesses::handle(const std::vector<pollfd>& polls, std::size_t at,
                            AgentChannel& channel) {
  // Output first, so that a process's last words are in before its end is.
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    if (polls[at + 2 + i].revents != 0) read(*polled_[i], channel);
  }
  if (!pending_.empty()) giveInput(channel);
  while (polls[at].revents != 0) {
    auto event = guardian_.next();
    if (!event.ok() && event.status().code() == StatusCode::kCancelled) break;
    if (!event.ok()) {
      const auto left = endDescendants({}, Deadline::after(kEndLimit), [](pid_t, int) {});
      event = Event{Event::Kind::kEnded, 0, static_cast<int>(left.size())};
    }
    if (event->kind == Event::Kind::kEnded) {
      for (Source& source : sources_) {
        while (source.reader.valid() && read(source, channel)) continue;
      }
      channel.send(Say::kEvent, asBytes(*event));
      return true;
    }
    channel.send(Say::kEvent, asBytes(*event));
  }
  return false;
}

// Whether there may be more.
bool AgentProcesses::read(Source& source, AgentChannel& channel) {
  std::array<char, 16 * 1024> buffer;
  const ssize_t size = ::read(source.reader.get(), buffer.data(), buffer.size());
  if (size < 0 && errno == EINTR) return true;
  if (size < 0 && errno == EAGAIN) return false;
  if (size <= 0) {
    source.reader.reset();
    return false;
  }
  std::string text(asBytes(source.process));
  text += static_cast<char>(source.stream);
  text.append(buffer.data(), static_cast<std::size_t>(size));
  channel.send(Say::kOutput, text);
  return true;
}

void AgentProcesses::send(Order order) { guardian_.send(order); }

void AgentProcesses::input(const std::string& bytes) {
  inputEnds_ = bytes.empty();
  if (input_.valid()) pending_ += bytes;
  if (inputEnds_ && pending_.empty()) input_.reset();
}

void AgentProcesses::giveInput(AgentChannel& channel) {
  const ssize_t size = write(input_.get(), pending_.data(), pending_.size());
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (size < 0) {  // Nobody reads it any more.
    pending_.clear();
    return input_.reset();
  }
  pending_.erase(0, static_cast<std::size_t>(size));
  if (!pending_.empty()) return;
  channel.send(Say::kInputTaken);
  if (inputEnds_) input_.reset();
}

void AgentProcesses::end() {
  guardian_.send({Order::Kind::kEnd});
  while (true) {
    pollfd events{guardian_.fd(), POLLIN, 0};
    poll(&events, 1, -1);  // The guardian has a limit of its own, and its end wakes us as well.
    const auto event = guardian_.next();
    if (event.ok() ? event->kind == Event::Kind::kEnded
                   : event.status().code() == StatusCode::kPeerLost) {
      break;
    }
  }
  (void)endDescendants({}, Deadline::after(std::chrono::seconds(1)), [](pid_t, int) {});
}

}  // namespace colla::launch
