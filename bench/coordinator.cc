#include "bench/coordinator.h"

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <sstream>

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kLastWords = 2s;

}  // namespace

Coordinator::Coordinator(const launch::Inherited& inherited,
                         std::unique_ptr<launch::BlockedSignals> signals, launch::Scratch scratch,
                         UniqueFd listener)
    : inherited_(inherited),
      signals_(std::move(signals)),
      scratch_(std::move(scratch)),
      listener_(std::move(listener)) {}

Result<std::unique_ptr<Coordinator>> Coordinator::create() {
  const auto inherited = launch::Inherited::current();
  auto signals = std::make_unique<launch::BlockedSignals>();
  COLLA_TRY_ASSIGN(launch::Scratch scratch, launch::Scratch::create());
  COLLA_TRY_ASSIGN(UniqueFd listener, LineSocket::listen(scratch.path("socket")));
  return std::unique_ptr<Coordinator>(
      new Coordinator(inherited, std::move(signals), std::move(scratch), std::move(listener)));
}

Coordinator::~Coordinator() {
  // Agents that sleep end by themselves once nobody listens. All get the same two seconds.
  for (System& system : systems_) {
    system.ranks.clear();
    system.processes->askToEnd();
  }
}

Coordinator::System* Coordinator::find(const std::string& name) {
  const auto it = std::ranges::find(systems_, name, &System::name);
  return it == systems_.end() ? nullptr : &*it;
}

Status Coordinator::start(const SystemSpec& spec, Deadline deadline) {
  COLLA_TRY_ASSIGN(auto processes, Processes::start(spec.processes, inherited_));
  systems_.push_back(
      {spec.name, std::vector<Rank>(static_cast<std::size_t>(spec.np)), std::move(processes)});
  const auto& ranks = systems_.back().ranks;
  const auto meet = [&]() -> Status {
    while (!std::ranges::all_of(ranks, [](const Rank& rank) { return rank.socket.has_value(); })) {
      if (deadline.expired()) {
        return {StatusCode::kTimeout, fmt::format("{} did not start in time", spec.name)};
      }
      COLLA_TRY(takeNews(deadline));
    }
    return {};
  };
  Status status = meet();
  if (!status.ok()) systems_.pop_back();
  return status;
}

Result<std::vector<std::string>> Coordinator::ask(const std::string& name, const std::string& line,
                                                  Deadline deadline,
                                                  const std::function<Status()>& meanwhile) {
  constexpr std::chrono::milliseconds kPause(10);
  System& system = *find(name);
  for (Rank& rank : system.ranks) {
    rank.answer.reset();
    // A rank that does not take the line is gone: what became of it is seen below.
    if (!rank.socket->writeLine(line).ok()) hangUp(rank);
  }
  const auto waitsFor = [&] {
    return std::ranges::find_if(system.ranks, [](const Rank& rank) { return !rank.answer; });
  };
  while (waitsFor() != system.ranks.end()) {
    if (deadline.expired()) {
      return {StatusCode::kTimeout, fmt::format("{} rank {} did not answer \"{}\" in time", name,
                                                waitsFor() - system.ranks.begin(), line)};
    }
    COLLA_TRY(takeNews(meanwhile ? deadline.earlier(Deadline::after(kPause)) : deadline));
    if (meanwhile) COLLA_TRY(meanwhile());
  }
  std::vector<std::string> answers;
  for (const Rank& rank : system.ranks) {
    answers.push_back(rank.answer->size() > 3 ? rank.answer->substr(3) : "");
  }
  return answers;
}

void Coordinator::stop(const std::string& name) {
  systems_.remove_if([&](const System& system) { return system.name == name; });
}

std::span<const Processes::One> Coordinator::processes(const std::string& system) {
  return find(system)->processes->all();
}

Status Coordinator::run(
    std::span<const ProcessSpec> specs, Deadline deadline,
    const std::function<void(std::span<const Processes::One> processes)>& started) {
  COLLA_TRY_ASSIGN(const auto processes, Processes::start(specs, inherited_));
  if (started) started(processes->all());
  while (!processes->allEnded()) {
    const auto running =
        std::ranges::find_if(processes->all(), [](const auto& one) { return !one.end; });
    if (deadline.expired()) {
      return {StatusCode::kTimeout, running->name + " did not end in time"};
    }
    Status status;
    Watch watch;
    watch.add(signals_->fd(), [&] { status = takeSignal(); });
    processes->addTo(watch);
    watch.wait(deadline.remaining());
    COLLA_TRY(status);
    const auto failed = std::ranges::find_if(processes->all(), &Processes::One::failed);
    if (failed != processes->all().end()) {
      return {StatusCode::kIo, Processes::obituary(*failed)};
    }
  }
  return {};
}

Status Coordinator::takeNews(Deadline deadline) {
  Status status;
  Watch watch;
  watch.add(signals_->fd(), [&] { status = takeSignal(); });
  watch.add(listener_.get(), [&] { takeConnection(); });
  for (LineSocket& socket : strangers_) {
    watch.add(socket.fd(), [&] { takeHello(socket); });
  }
  // Lines before exits: an agent's own explanation is better than its exit code.
  for (System& system : systems_) {
    for (Rank& rank : system.ranks) {
      if (rank.lastWords) deadline = deadline.earlier(*rank.lastWords);
      if (rank.socket && !rank.lastWords) watch.add(rank.socket->fd(), [&] { takeLines(rank); });
    }
  }
  for (System& system : systems_) system.processes->addTo(watch);
  watch.wait(deadline.remaining());
  std::erase_if(strangers_, [](const LineSocket& socket) { return socket.fd() < 0; });
  COLLA_TRY(status);
  for (System& system : systems_) COLLA_TRY(health(system));
  return {};
}

Status Coordinator::takeSignal() {
  signal_ = signals_->take();
  if (signal_ == 0) return {};
  return {StatusCode::kCancelled, fmt::format("stopped by {}", strsignal(signal_))};
}

void Coordinator::takeConnection() {
  UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (fd.valid()) strangers_.emplace_back(std::move(fd));
}

// hello SYSTEM RANK
void Coordinator::takeHello(LineSocket& socket) {
  const bool gone = !socket.read().ok();
  const auto line = socket.nextLine();
  if (!line && !gone) return;
  std::istringstream words(line.value_or(""));
  std::string hello;
  std::string name;
  std::size_t rank = 0;
  words >> hello >> name >> rank;
  System* const system = find(name);
  if (words && hello == "hello" && system != nullptr && rank < system->ranks.size()) {
    system->ranks[rank].socket.emplace(std::move(socket));
  } else {
    const LineSocket closed(std::move(socket));
  }
}

void Coordinator::takeLines(Rank& rank) {
  if (!rank.socket->read().ok()) hangUp(rank);
  if (auto line = rank.socket->nextLine()) rank.answer = std::move(line);
}

void Coordinator::hangUp(Rank& rank) {
  if (!rank.lastWords) rank.lastWords = Deadline::after(kLastWords);
}

Status Coordinator::complaint(const System& system) {
  for (std::size_t i = 0; i < system.ranks.size(); ++i) {
    const auto& answer = system.ranks[i].answer;
    if (!answer || answer->starts_with("ok")) continue;
    const std::string_view text = *answer;
    return {StatusCode::kInternal, fmt::format("{} rank {}: {}", system.name, i,
                                               text.starts_with("error ") ? text.substr(6) : text)};
  }
  return {};
}

Status Coordinator::health(System& system) {
  COLLA_TRY(complaint(system));
  const auto all = system.processes->all();
  const auto ended = std::ranges::find_if(all, [](const auto& one) { return one.end.has_value(); });
  if (ended != all.end()) {
    // Its agent may have said why after its socket was looked at.
    Watch watch;
    for (Rank& rank : system.ranks) {
      if (rank.socket && !rank.lastWords) watch.add(rank.socket->fd(), [&] { takeLines(rank); });
    }
    watch.wait(0s);
    COLLA_TRY(complaint(system));
    return {StatusCode::kPeerLost, Processes::obituary(*ended)};
  }
  for (std::size_t i = 0; i < system.ranks.size(); ++i) {
    const auto& lastWords = system.ranks[i].lastWords;
    if (lastWords && lastWords->expired()) {
      return {StatusCode::kPeerLost, fmt::format("{} rank {} has hung up", system.name, i)};
    }
  }
  return {};
}

}  // namespace colla::bench
