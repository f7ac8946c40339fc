#include "launch/hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "job/this_host.h"
#include "launch/agent.h"
#include "launch/program.h"
#include "launch/report.h"

namespace colla::launch {
namespace {

constexpr std::size_t kMostSaid = 16 * 1024;
constexpr auto kExitFollows = std::chrono::seconds(1);

// The programs that reach other hosts; empty where none needs it.
struct Remotes {
  std::string ssh;
  std::string srun;
};

Result<Remotes> findRemotes(const std::vector<Hosts::Host>& hosts) {
  Remotes remotes;
  const char* const variable = std::getenv("PATH");
  const std::string path = variable == nullptr ? "/usr/bin:/bin" : variable;
  for (const Hosts::Host& host : hosts) {
    if (host.here) continue;
    std::string& program = host.node ? remotes.srun : remotes.ssh;
    if (!program.empty()) continue;
    const auto found = findProgram(host.node ? "srun" : "ssh", path);
    if (!found.ok()) {
      return {StatusCode::kNotFound,
              fmt::format("there is no {} here to reach other hosts with: {}",
                          host.node ? "srun" : "ssh",
                          host.node ? "put Slurm's commands into PATH" : "install openssh-client")};
    }
    program = *found;
  }
  return remotes;
}

std::vector<std::string> wordsFor(const Hosts::Host& host, const Hosts::Options& options) {
  if (host.here) return {options.colla, "agent"};
  const auto agent = agentCommand(options.colla, options.copies);
  if (host.node) return srunCommand(*host.node, agent);
  return sshCommand(host.name, options.ssh, agent, options.connectSeconds);
}

}  // namespace

bool isThisHost(const std::string& name) {
  return job::isLoopback(name) || job::ThisHost::real().is(name);
}

std::string collaProgram() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string beside = self.parent_path() / "colla";
  if (!error && access(beside.c_str(), X_OK) == 0) return beside;
  const char* const path = std::getenv("PATH");
  const auto found = findProgram("colla", path == nullptr ? "" : path);
  return found.ok() ? *found : "colla";
}

Hosts::Host hostOf(const std::string& name, const std::vector<AllocatedNode>& allocation) {
  const auto node = std::ranges::find(allocation, name, &AllocatedNode::name);
  return {.name = name,
          .here = isThisHost(name),
          .node = node == allocation.end() ? std::optional<AllocatedNode>() : *node};
}

Result<std::unique_ptr<Hosts>> Hosts::connect(const std::vector<Host>& hosts,
                                              const Options& options, const Inherited& inherited) {
  COLLA_TRY_ASSIGN(const Remotes remotes, findRemotes(hosts));
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    // Of the user's own way here, which is not ours to the hosts.
    const std::string_view variable(*entry);
    if (variable.starts_with("SSH_CONNECTION=")) continue;
    if (variable.starts_with("SLURM_LAUNCH_NODE_IPADDR=")) continue;
    environment.emplace_back(variable);
  }

  std::vector<Link> links;
  std::vector<Command> commands;
  std::vector<UniqueFd> theirs;
  for (const Host& host : hosts) {
    std::array<int, 2> ends{};
    std::array<int, 2> errors{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0 ||
        pipe2(errors.data(), O_CLOEXEC) != 0) {
      return {StatusCode::kIo,
              fmt::format("no socket for host {}: {}", host.name, std::strerror(errno))};
    }
    fcntl(errors[0], F_SETFL, O_NONBLOCK);
    Link& link = links.emplace_back(Link{.name = host.name,
                                         .here = host.here,
                                         .bySrun = !host.here && host.node.has_value(),
                                         .channel = AgentChannel(UniqueFd(ends[0]), UniqueFd()),
                                         .errors = UniqueFd(errors[0]),
                                         .said = {},
                                         .heard = Clock::real().now(),
                                         .exitCode = {},
                                         .answers = {},
                                         .processes = {},
                                         .running = {}});
    link.channel.expectMark();
    theirs.emplace_back(ends[1]);
    theirs.emplace_back(errors[1]);
    const std::string& remote = host.node ? remotes.srun : remotes.ssh;
    commands.push_back({.program = host.here ? options.colla : remote,
                        .arguments = wordsFor(host, options),
                        .environment = environment,
                        .input = ends[1],
                        .output = ends[1],
                        .error = errors[1]});
  }
  COLLA_TRY_ASSIGN(Guardian guardian, Guardian::create(commands, inherited));
  guardian.send({Order::Kind::kStart});
  return std::unique_ptr<Hosts>(new Hosts(std::move(links), std::move(guardian), options.ssh));
}

Hosts::Hosts(std::vector<Link> links, Guardian guardian, SshOptions ssh)
    : links_(std::move(links)),
      guardian_(std::move(guardian)),
      ssh_(std::move(ssh)),
      beat_(Clock::real().now() + kBeatEvery) {}

Hosts::~Hosts() = default;

void Hosts::say(std::size_t host, Say kind, const Fields& fields) {
  links_[host].channel.send(kind, fields.encode());
  (void)links_[host].channel.flush();
}

bool Hosts::waitOnce(int signals, TimePoint until) {
  std::vector<pollfd> polls = {{signals, POLLIN, 0}};
  prepare(polls);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::min(until, nextDeadline()) -
                                                                 Clock::real().now());
  if (poll(polls.data(), polls.size(),
           static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000))) < 0) {
    return true;
  }
  if (polls[0].revents != 0) return false;
  (void)handle(polls, 1, Clock::real().now());
  return true;
}

void Hosts::start(std::size_t host, const Fields& job, std::vector<int> processes) {
  Link& link = links_[host];
  link.processes = std::move(processes);
  link.running = {link.processes.begin(), link.processes.end()};
  say(host, Say::kStart, job);
}

std::string Hosts::silence() const {
  std::string text;
  const TimePoint now = Clock::real().now();
  for (const Link& link : links_) {
    if (link.ended || !link.answers.lost.empty() || now < link.heard + 2 * kBeatEvery) continue;
    text += fmt::format("{}host {} for {} s", text.empty() ? "" : ", ", link.name,
                        std::chrono::floor<std::chrono::seconds>(now - link.heard).count());
  }
  return text;
}

void Hosts::send(Order order) {
  if (order.kind == Order::Kind::kStart) return;  // start() has said so.
  for (Link& link : links_) {
    if (link.ended || !link.answers.lost.empty()) continue;
    link.channel.send(Say::kOrder, asBytes(order));
    (void)link.channel.flush();
  }
  ending_ = ending_ || order.kind == Order::Kind::kEnd;
  endIfDone();
}

void Hosts::prepare(std::vector<pollfd>& polls) {
  const bool full = output_ != nullptr && output_->full();
  for (Link& link : links_) {
    const auto writes = static_cast<short>(link.channel.queued() > 0 ? POLLOUT : 0);
    const auto reads = static_cast<short>(full ? 0 : POLLIN);
    polls.push_back(
        {link.channel.open() ? link.channel.in() : -1, static_cast<short>(reads | writes), 0});
    polls.push_back({link.errors.get(), POLLIN, 0});
    if (full) link.heard = Clock::real().now();  // Nobody listens.
  }
  polls.push_back({guardianLost_ ? -1 : guardian_.fd(), POLLIN, 0});
  polls.push_back({inputTaken_ ? input_.get() : -1, POLLIN, 0});
}

bool Hosts::handle(const std::vector<pollfd>& polls, std::size_t at, TimePoint now) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Link& link = links_[i];
    if (polls[at + 2 * i + 1].revents != 0) readErrors(link);
    if ((polls[at + 2 * i].revents & ~POLLOUT) != 0) hear(link, now);
  }
  const std::size_t rest = at + 2 * links_.size();
  if (polls[rest].revents != 0) hearGuardian();
  if (polls[rest + 1].revents != 0) readInput();
  if (now >= beat_) {
    for (Link& link : links_) link.channel.send(Say::kBeat);
    beat_ = now + kBeatEvery;
  }
  for (Link& link : links_) {
    if (link.channel.open()) (void)link.channel.flush();  // Reading tells what is wrong.
    if (link.ended || !link.answers.lost.empty()) continue;
    const bool over = link.endOfFile != TimePoint::max() &&
                      (link.exitCode || now >= link.endOfFile + kExitFollows);
    if (over) {
      lose(link, whyLost(link));
    } else if (link.answers.facts && link.channel.open() && now >= link.heard + kHostSilence) {
      lose(link, fmt::format("nothing was heard of it for {} s",
                             std::chrono::floor<std::chrono::seconds>(now - link.heard).count()));
    }
  }
  endIfDone();
  return !events_.empty() || guardianLost_;
}

TimePoint Hosts::nextDeadline() const {
  TimePoint next = beat_;
  for (const Link& link : links_) {
    if (link.endOfFile != TimePoint::max() && link.answers.lost.empty() && !link.ended) {
      next = std::min(next, link.endOfFile + kExitFollows);
    }
  }
  return next;
}

void Hosts::hear(Link& link, TimePoint now) {
  if (!link.channel.fill()) {
    link.channel.close();
    link.endOfFile = now;
  }
  link.heard = now;
  for (;;) {
    auto message = link.channel.next();
    if (!message.ok()) {
      link.channel.close();
      return lose(link,
                  fmt::format("its agent speaks differently ({})", message.status().message()));
    }
    if (!*message) return;
    take(link, **message, now);
  }
}

void Hosts::take(Link& link, const AgentChannel::Message& message, TimePoint now) {
  switch (message.kind) {
    case Say::kFacts:
    case Say::kChecked:
    case Say::kReached:
    case Say::kMeasured: {
      auto fields = Fields::parse(message.text);
      if (!fields.ok()) return lose(link, "its agent speaks differently");
      if (message.kind == Say::kFacts) link.answers.facts = HostFacts::from(*fields);
      if (message.kind == Say::kChecked) link.answers.checked = *std::move(fields);
      if (message.kind == Say::kReached) link.answers.reached = *std::move(fields);
      if (message.kind == Say::kMeasured) link.answers.measured = *std::move(fields);
      if (!link.processes.empty() && message.kind == Say::kChecked) {
        lose(link, (*link.answers.checked)["wrong"]);  // It could not start them.
      }
      return;
    }
    case Say::kEvent:
      if (const auto event = fromBytes<Event>(message.text)) takeEvent(link, *event);
      return;
    case Say::kOutput: {
      const auto process = fromBytes<std::uint32_t>(message.text.substr(0, sizeof(std::uint32_t)));
      if (!process || *process >= link.processes.size() || message.text.size() < 5) return;
      if (output_ != nullptr) {
        output_->add(static_cast<std::size_t>(link.processes[*process]),
                     message.text[4] == 0 ? kOut : kErr, std::string_view(message.text).substr(5),
                     now);
      }
      return;
    }
    case Say::kInputTaken:
      inputTaken_ = true;
      return;
    default:
      return;
  }
}

void Hosts::takeEvent(Link& link, const Event& event) {
  if (event.kind == Event::Kind::kEnded) {
    link.ended = true;
    left_ += event.value;
    if (!ending_ && !link.running.empty()) lose(link, "its guardian process is gone");
    return;
  }
  const auto number = static_cast<std::size_t>(event.process);
  if (number >= link.processes.size()) return;
  Event ours = event;
  ours.process = link.processes[number];
  if (event.kind != Event::Kind::kStarted) link.running.erase(ours.process);
  events_.push_back(ours);
}

void Hosts::readErrors(Link& link) {
  std::array<char, 4096> buffer;
  const ssize_t size = read(link.errors.get(), buffer.data(), buffer.size());
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return link.errors.reset();
  link.said.append(buffer.data(), static_cast<std::size_t>(size));
  if (link.said.size() > kMostSaid) link.said.erase(0, link.said.size() - kMostSaid);
}

void Hosts::hearGuardian() {
  for (;;) {
    const auto event = guardian_.next();
    if (!event.ok()) {
      guardianLost_ = event.status().code() == StatusCode::kPeerLost;
      return;
    }
    if (event->kind == Event::Kind::kEnded) {
      left_ += event->value;
      events_.push_back({Event::Kind::kEnded, 0, left_});
      return;
    }
    Link& link = links_[static_cast<std::size_t>(event->process)];
    if (event->kind == Event::Kind::kExited) link.exitCode = event->value;
    if (event->kind == Event::Kind::kKilled) {
      link.exitCode = 128 + event->value;
      link.said += fmt::format("\nit was killed by {}\n", signalName(event->value));
    }
    if (event->kind == Event::Kind::kNotStarted) {
      link.channel.close();
      lose(link,
           fmt::format("can't start {} for it: {}", wordFor(link), std::strerror(event->value)));
    }
  }
}

// In portions that are taken before the next one comes: worker 0 may not read what we do.
void Hosts::readInput() {
  std::array<char, 16 * 1024> buffer;
  const ssize_t size = read(input_.get(), buffer.data(), buffer.size());
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) input_.reset();
  const std::string_view bytes(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  for (Link& link : links_) {
    if (link.processes.empty() || link.processes.front() != 0) continue;
    link.channel.send(Say::kInput, bytes);
    inputTaken_ = false;
  }
}

std::string_view Hosts::wordFor(const Link& link) {
  return link.here ? "its agent" : link.bySrun ? "srun" : "ssh";
}

std::string Hosts::whyLost(const Link& link) const {
  const int code = link.exitCode.value_or(255);
  std::string said = link.channel.noise() + "\n" + link.said;
  if (link.answers.facts || link.here) {
    const auto end = said.find_last_not_of(" \t\r\n");
    said.erase(end == std::string::npos ? 0 : end + 1);
    const auto line = said.substr(said.rfind('\n') + 1);
    return fmt::format("{} ended with exit code {}{}",
                       link.here ? "its agent" : fmt::format("the {} to it", wordFor(link)), code,
                       line.empty() ? "" : " (" + line + ")");
  }
  if (link.bySrun) return explainSrun(link.name, code, said);
  return explainSsh(link.name, ssh_, code, said);
}

void Hosts::lose(Link& link, const std::string& why) {
  if (!link.answers.lost.empty()) return;
  link.answers.lost = why;
  link.channel.close();
  for (const int process : link.running) events_.push_back({Event::Kind::kLost, process, 0});
  link.running.clear();
}

// Once no host has anything left, neither do we need their ssh.
void Hosts::endIfDone() {
  const bool done = std::ranges::all_of(
      links_, [](const Link& link) { return link.ended || !link.answers.lost.empty(); });
  if (!ending_ || !done || guardianEnds_) return;
  guardian_.send({Order::Kind::kEnd});
  guardianEnds_ = true;
}

Result<Event> Hosts::next() {
  if (!events_.empty()) {
    const Event event = events_.front();
    events_.pop_front();
    return event;
  }
  if (guardianLost_) return {StatusCode::kPeerLost, "the guardian process is gone"};
  return {StatusCode::kCancelled, "no event"};
}

void Hosts::wait() { guardian_.wait(); }

void Hosts::pause() {
  const Deadline deadline = Deadline::after(std::chrono::milliseconds(200));
  for (Link& link : links_) {
    if (link.channel.open()) link.channel.send(Say::kPause);
    while (link.channel.open() && link.channel.queued() > 0 && !deadline.expired() &&
           link.channel.flush() && link.channel.queued() > 0) {
      pollfd out{link.channel.out(), POLLOUT, 0};
      ::poll(&out, 1, 20);
    }
  }
}

}  // namespace colla::launch
