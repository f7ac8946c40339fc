#include "bench/coordinator.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <sstream>

#include "bench/machine.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kLastWords = 2s;

std::string withLastLines(std::string message, const Process& process) {
  const std::string lines = process.lastLines();
  if (!lines.empty()) message += "; its last lines:\n" + lines;
  return message;
}

bool readable(int fd) {
  pollfd file{fd, POLLIN, 0};
  return poll(&file, 1, 0) > 0;
}

// With one patience for all.
void endAll(std::list<Process>& processes) {
  for (Process& process : processes) process.askToEnd();
  const Deadline patience = Process::usualPatience();
  for (Process& process : processes) process.end(patience);
}

// Everything that is waited for, each with what to do about it.
class Watch {
 public:
  void add(int fd, std::function<void()> react) {
    if (fd < 0) return;
    fds_.push_back({fd, POLLIN, 0});
    reactions_.push_back(std::move(react));
  }
  // Once; for at most `limit`.
  void wait(std::chrono::nanoseconds limit) {
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
    if (poll(fds_.data(), fds_.size(), static_cast<int>(milliseconds)) <= 0) return;
    for (std::size_t i = 0; i < fds_.size(); ++i) {
      if (fds_[i].revents != 0) reactions_[i]();
    }
  }

 private:
  std::vector<pollfd> fds_;
  std::vector<std::function<void()>> reactions_;
};

}  // namespace

BlockedSignals::BlockedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, &before_);
  fd_ = UniqueFd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

BlockedSignals::~BlockedSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

int BlockedSignals::take() const {
  signalfd_siginfo info{};
  if (read(fd_.get(), &info, sizeof(info)) != sizeof(info)) return 0;
  return static_cast<int>(info.ssi_signo);
}

Coordinator::Coordinator(std::unique_ptr<BlockedSignals> signals, Scratch scratch,
                         UniqueFd listener)
    : signals_(std::move(signals)), scratch_(std::move(scratch)), listener_(std::move(listener)) {}

Result<std::unique_ptr<Coordinator>> Coordinator::create() {
  auto signals = std::make_unique<BlockedSignals>();
  COLLA_TRY_ASSIGN(Scratch scratch, Scratch::create());
  COLLA_TRY_ASSIGN(UniqueFd listener, LineSocket::listen(scratch.path("socket")));
  return std::unique_ptr<Coordinator>(
      new Coordinator(std::move(signals), std::move(scratch), std::move(listener)));
}

Coordinator::~Coordinator() {
  // Those that sleep end by themselves once nobody listens; the others are ended.
  for (System& system : systems_) {
    system.ranks.clear();
    for (Process& process : system.processes) process.askToEnd();
  }
  const Deadline patience = Process::usualPatience();
  for (System& system : systems_) {
    for (Process& process : system.processes) process.end(patience);
  }
}

Coordinator::System* Coordinator::find(const std::string& name) {
  const auto it = std::ranges::find(systems_, name, &System::name);
  return it == systems_.end() ? nullptr : &*it;
}

Status Coordinator::start(const SystemSpec& spec, Deadline deadline) {
  System& system = systems_.emplace_back();
  system.name = spec.name;
  system.ranks.resize(spec.np);
  const auto allThere = [&] {
    return std::ranges::all_of(system.ranks, [](const Rank& r) { return r.socket.has_value(); });
  };
  const auto startAll = [&]() -> Status {
    for (const ProcessSpec& process : spec.processes) {
      COLLA_TRY_ASSIGN(Process started, Process::start(process));
      system.processes.push_back(std::move(started));
    }
    while (!allThere()) {
      if (deadline.expired()) {
        return {StatusCode::kTimeout, fmt::format("{} did not start in time", spec.name)};
      }
      COLLA_TRY(takeNews(deadline));
    }
    return {};
  };
  Status status = startAll();
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
    // A rank that cannot be told is gone: what became of it is seen below.
    if (!rank.socket->writeLine(line).ok()) hangUp(rank);
  }
  const auto waitsFor = [&] {
    return std::ranges::find_if(system.ranks, [](const Rank& r) { return !r.answer; });
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

Result<std::vector<ProcessMemory>> Coordinator::memory(const std::string& name) {
  std::vector<ProcessMemory> all;
  for (const Process& process : find(name)->processes) {
    COLLA_TRY_ASSIGN(const std::size_t bytes, proportionalSetSize(process.pid()));
    all.push_back({process.name(), bytes});
  }
  return all;
}

Result<std::string> Coordinator::run(const ProcessSpec& spec, Deadline deadline) {
  COLLA_TRY_ASSIGN(auto outputs,
                   runTogether({&spec, 1}, deadline, [](const std::list<Process>&) {}));
  return std::move(outputs.front());
}

Result<std::vector<std::string>> Coordinator::runTogether(
    std::span<const ProcessSpec> specs, Deadline deadline,
    const std::function<void(const std::list<Process>& processes)>& look) {
  struct Together : std::list<Process> {
    ~Together() { endAll(*this); }
  } processes;
  for (const ProcessSpec& spec : specs) {
    COLLA_TRY_ASSIGN(Process process, Process::start(spec));
    processes.push_back(std::move(process));
  }
  std::vector<const Process*> running;
  for (const Process& process : processes) running.push_back(&process);
  while (!running.empty()) {
    if (deadline.expired()) {
      return {StatusCode::kTimeout,
              withLastLines(running.front()->name() + " did not end in time", *running.front())};
    }
    Status status;
    bool written = false;
    Watch watch;
    watch.add(signals_->fd(), [&] { status = takeSignal(); });
    for (Process& process : processes) {
      watch.add(process.outputFd(), [&] {
        process.readOutput();
        written = true;
      });
      if (std::ranges::find(running, &process) == running.end()) continue;
      watch.add(process.exitFd(), [&] {
        const std::string outcome = process.waitForExit();
        std::erase(running, &process);
        if (process.exitedWell() || !status.ok()) return;
        status = {StatusCode::kIo,
                  withLastLines(process.name() + " ended with " + outcome, process)};
      });
    }
    watch.wait(deadline.remaining());
    if (written) look(processes);
    COLLA_TRY(status);
  }
  std::vector<std::string> outputs;
  for (const Process& process : processes) outputs.push_back(process.output());
  return outputs;
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
      if (rank.socket && !rank.lastWords) {
        watch.add(rank.socket->fd(), [&] { takeLines(rank); });
      }
    }
  }
  for (System& system : systems_) {
    for (Process& process : system.processes) {
      watch.add(process.outputFd(), [&] { process.readOutput(); });
      watch.add(process.exitFd(), [] {});  // health() looks.
    }
    for (const Rank& rank : system.ranks) {
      if (rank.lastWords) deadline = deadline.earlier(*rank.lastWords);
    }
  }
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
    if (answer && !answer->starts_with("ok")) {
      const std::string_view text = *answer;
      return {StatusCode::kInternal,
              fmt::format("{} rank {}: {}", system.name, i,
                          text.starts_with("error ") ? text.substr(6) : text)};
    }
  }
  return {};
}

Status Coordinator::health(System& system) {
  COLLA_TRY(complaint(system));
  for (Process& process : system.processes) {
    if (!readable(process.exitFd())) continue;
    // It may have told why after its socket was looked at.
    for (Rank& rank : system.ranks) {
      if (rank.socket && !rank.lastWords && readable(rank.socket->fd())) takeLines(rank);
    }
    COLLA_TRY(complaint(system));
    const std::string outcome = process.waitForExit();
    return {StatusCode::kPeerLost,
            withLastLines(fmt::format("{} ended with {}", process.name(), outcome), process)};
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
