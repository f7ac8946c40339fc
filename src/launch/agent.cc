#include "launch/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "launch/agent_channel.h"
#include "launch/agent_processes.h"
#include "launch/copies.h"
#include "launch/host_facts.h"
#include "launch/measure.h"
#include "launch/plan.h"
#include "launch/process_tree.h"
#include "launch/program.h"
#include "launch/reach.h"
#include "transport/net/address.h"

namespace colla::launch {
namespace {

constexpr auto kReachLimit = std::chrono::seconds(5);
constexpr auto kMeasureLimit = std::chrono::seconds(3);
constexpr auto kLastWords = std::chrono::seconds(2);
constexpr std::uint64_t kLeastSpace = 1 << 20;

// The channel takes the standard descriptors away, so that nothing that is printed can get into it.
AgentChannel takeChannel() {
  UniqueFd in(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  UniqueFd out(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  dup2(null.get(), STDIN_FILENO);
  dup2(null.get(), STDOUT_FILENO);
  return {std::move(in), std::move(out)};
}

// Empty: there is room.
std::string whatIsFull(const std::string& folder) {
  struct statvfs space {};
  if (statvfs(folder.c_str(), &space) != 0 || (space.f_flag & ST_RDONLY) != 0) return "";
  if (space.f_bavail * space.f_frsize >= kLeastSpace) return "";
  return fmt::format("the disk with {} is full: make room on it", folder);
}

// Slurm gives all processes of a step the signals that are for its programs. Not SIG_IGN, which the
// programs would inherit.
void leaveSignalsToPrograms() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) {
    std::signal(signal, [](int) {});
  }
}

class Agent {
 public:
  Agent() : channel_(takeChannel()) {
    std::signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (std::getenv("SLURM_STEP_ID") != nullptr) leaveSignalsToPrograms();
    channel_.sendMark();
    channel_.send(Say::kFacts, facts_.fields().encode());
  }

  int run() {
    while (!done_) wait();
    lastWords();
    return 0;
  }

 private:
  void wait() {
    std::vector<pollfd> polls;
    polls.push_back({channel_.in(), POLLIN, 0});
    const bool writes = channel_.queued() > 0;
    polls.push_back({writes ? channel_.out() : -1, POLLOUT, 0});
    const std::size_t at = polls.size();
    const bool prepared = processes_.has_value();  // What is heard below may start them.
    if (prepared) processes_->prepare(polls, channel_.queued());
    const TimePoint until = std::min(paused_ ? TimePoint::max() : heard_ + kFrontSilence, beat_);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::real().now());
    poll(polls.data(), polls.size(),
         static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));

    const TimePoint now = Clock::real().now();
    if (polls[0].revents != 0) hear(now);
    if (done_) return;
    if (prepared) done_ = processes_->handle(polls, at, channel_);
    if (now >= beat_) {
      channel_.send(Say::kBeat);
      beat_ = now + kBeatEvery;
    }
    if (!channel_.flush() || (!paused_ && now >= heard_ + kFrontSilence)) frontIsGone();
  }

  void hear(TimePoint now) {
    if (!channel_.fill()) return frontIsGone();
    heard_ = now;
    for (;;) {
      auto message = channel_.next();
      if (!message.ok()) return frontIsGone();
      if (!*message) return;
      paused_ = (*message)->kind == Say::kPause;
      obey(**message);
      if (done_) return;
      heard_ = Clock::real().now();  // To obey may take a while.
    }
  }

  void obey(const AgentChannel::Message& message) {
    switch (message.kind) {
      case Say::kCheck:
        return check(message.text);
      case Say::kReach:
        return reach(message.text);
      case Say::kServe:
        if (door_) serveMeasurement(door_->socket.get(), Deadline::after(kMeasureLimit));
        return;
      case Say::kMeasure:
        return measure(message.text);
      case Say::kStart:
        return start(message.text);
      case Say::kOrder: {
        const auto order = fromBytes<Order>(message.text);
        if (!order) return frontIsGone();
        if (processes_) return processes_->send(*order);
        if (order->kind == Order::Kind::kEnd) done_ = true;
        return;
      }
      case Say::kInput:
        if (processes_) processes_->input(message.text);
        return;
      default:
        return;  // Beats, above all.
    }
  }

  void check(const std::string& text) {
    const auto job = Fields::parse(text);
    if (!job.ok()) return frontIsGone();
    Fields answer;
    const auto complain = [&](const std::string& what) { answer.add("wrong", what); };
    const std::string& folder = (*job)["folder"];
    if (chdir(folder.c_str()) != 0) {
      complain(
          fmt::format("the working directory {} can't be entered ({}): make it there too, or "
                      "start from one that all hosts have",
                      folder, std::strerror(errno)));
    } else if (!(*job)["program"].empty()) {
      auto program = findProgram((*job)["program"], (*job)["path"]);
      if (!program.ok() && !(*job)["copies"].empty()) {
        const auto copy = findProgram(Copies::placeOf((*job)["copies"], (*job)["program"]), "");
        if (copy.ok()) program = copy;
      }
      if (!program.ok()) {
        complain(std::string(program.status().message()));
      } else {
        answer.add("program", *program);
      }
    }
    const char* const temporary = std::getenv("TMPDIR");
    for (const std::string& place : {folder, std::string(temporary != nullptr ? temporary : "/tmp"),
                                     std::string("/dev/shm")}) {
      const std::string full = whatIsFull(place);
      if (!full.empty()) complain(full);
    }
    chooseAddress(*job, answer);
    channel_.send(Say::kChecked, answer.encode());
  }

  // Where the processes will listen: on the interface that the user chose, or on the one that leads
  // to the front.
  void chooseAddress(const Fields& job, Fields& answer) {
    Result<std::string> address = std::string("127.0.0.1");
    if (!job["interfaces"].empty()) {
      const auto chosen = chooseInterface(job["interfaces"], facts_.interfaces);
      address = chosen.ok() ? transport::net::interfaceAddress(*chosen) : chosen.status();
      if (chosen.ok()) answer.add("interface", *chosen);
    } else if (!facts_.client.empty()) {
      address = transport::net::addressTowards(transport::net::withPort(facts_.client, 1));
    } else if (!job["towards"].empty()) {
      address = transport::net::addressTowards(job["towards"]);
    }
    auto door = address.ok() ? openDoor(*address) : address.status();
    if (!door.ok()) return answer.add("wrong", door.status().message());
    door_ = *std::move(door);
    answer.add("address", door_->address);
    answer.add("port", std::to_string(findFreePort()));
  }

  void reach(const std::string& text) {
    const auto others = Fields::parse(text);
    if (!others.ok()) return frontIsGone();
    std::vector<std::string> addresses;
    for (const auto& [name, address] : others->entries()) addresses.push_back(address);
    const auto errors = tryToReach(addresses, Deadline::after(kReachLimit));
    Fields answer;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      answer.add(others->entries()[i].first, errors[i]);
    }
    channel_.send(Say::kReached, answer.encode());
  }

  void measure(const std::string& text) {
    const auto target = Fields::parse(text);
    if (!target.ok()) return frontIsGone();
    const auto speed = measureTo((*target)["address"], Deadline::after(kMeasureLimit));
    Fields answer;
    if (!speed.ok()) answer.add("wrong", speed.status().message());
    if (speed.ok()) answer.add("round trip", fmt::format("{}", speed->roundTrip));
    if (speed.ok()) answer.add("bandwidth", fmt::format("{}", speed->bandwidth));
    channel_.send(Say::kMeasured, answer.encode());
  }

  void start(const std::string& text) {
    const auto job = Fields::parse(text);
    if (!job.ok() || processes_) return frontIsGone();
    door_.reset();
    auto processes = AgentProcesses::start(*job);
    if (!processes.ok()) {
      channel_.send(Say::kChecked, [&] {
        Fields answer;
        answer.add("wrong", processes.status().message());
        return answer.encode();
      }());
      return;
    }
    processes_.emplace(*std::move(processes));
  }

  void frontIsGone() {
    channel_.close();
    done_ = true;
  }

  // What is said still goes to the front, if there is one; processes end with `processes_`.
  void lastWords() {
    if (processes_) processes_->end();
    const Deadline deadline = Deadline::after(kLastWords);
    while (channel_.open() && channel_.queued() > 0 && !deadline.expired() && channel_.flush()) {
      pollfd out{channel_.out(), POLLOUT, 0};
      if (channel_.queued() > 0) poll(&out, 1, 100);
    }
  }

  const HostFacts facts_ = HostFacts::ofThis();
  AgentChannel channel_;
  std::optional<Door> door_;
  std::optional<AgentProcesses> processes_;
  TimePoint heard_ = Clock::real().now();
  TimePoint beat_ = heard_ + kBeatEvery;
  bool paused_ = false;
  bool done_ = false;
};

}  // namespace

int runAgent() { return Agent().run(); }

}  // namespace colla::launch
