#include "launch/guardian.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "base/deadline.h"
#include "launch/process_tree.h"

namespace colla::launch {
namespace {

struct Child {
  pid_t pid = -1;
  UniqueFd fd;  // Of the process; invalid once it has ended.
};

// Neither "colla" nor "colla run …", which the fork has left us: `killall -9 colla` and
// `pkill -9 -f "colla run"` should not match the guardian. The command line is overwritten where
// the kernel shows it from; nobody reads it here any more.
void takeName(std::string_view name) {
  prctl(PR_SET_NAME, std::string(name).c_str());
  const std::span<char> line = ownCommandLine();
  if (line.empty()) return;
  std::ranges::fill(line, '\0');
  std::ranges::copy(name.substr(0, line.size() - 1), line.begin());
}

// The front's ends of pipes and terminals, its files and signals, which the fork has left us:
// whoever reads a pipe sees its end when nobody has the other end any more. What exec does not
// close is for the programs.
void closeFronts(const std::set<int>& ours) {
  std::vector<int> fronts;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", unreadable)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    if (fd > STDERR_FILENO && !ours.contains(fd)) fronts.push_back(fd);
  }
  for (const int fd : fronts) {
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) != 0) close(fd);
  }
}

// A process of a different job, which its own guardian is just killing, may add files meanwhile.
void removeDirectories(const std::vector<std::string>& directories) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::error_code error;
    bool gone = true;
    for (const std::string& directory : directories) {
      std::filesystem::remove_all(directory, error);
      gone = gone && !error && !std::filesystem::exists(directory, error);
    }
    if (gone) return;
    usleep(50'000);
  }
}

// The life of the guardian process.
class Guard {
 public:
  Guard(const std::vector<Command>& commands, const Inherited& inherited,
        const std::vector<std::string>& litter, UniqueFd channel)
      : commands_(commands), inherited_(inherited), litter_(litter), channel_(std::move(channel)) {}

  [[noreturn]] void live() {
    setpgid(0, 0);
    takeName("job-guardian");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    std::set<int> ours = {channel_.get()};
    for (const Command& command : commands_) {
      ours.insert(
          {command.input, command.output, command.error, command.networkNamespace, command.secret});
    }
    closeFronts(ours);

    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    const UniqueFd orphans(signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
    epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
    watch(channel_.get(), kChannel);
    watch(orphans.get(), kOrphans);

    for (;;) {
      // Ends are reported in the order in which they happened, since epoll lists descriptors in
      // the order in which they became ready. waitpid() would go by age.
      std::array<epoll_event, 64> events;
      const int count = epoll_wait(epoll_.get(), events.data(), events.size(), -1);
      bool sawOrphans = false;
      for (int i = 0; i < count; ++i) {
        const auto id = events[static_cast<std::size_t>(i)].data.u64;
        if (id == kChannel) {
          obey();
        } else if (id == kOrphans) {
          signalfd_siginfo info{};
          while (read(orphans.get(), &info, sizeof(info)) == sizeof(info)) continue;
          sawOrphans = true;
        } else {
          collect(id);
        }
      }
      if (sawOrphans) reapOrphans();
    }
  }

 private:
  static constexpr std::uint64_t kChannel = ~0ULL;
  static constexpr std::uint64_t kOrphans = ~1ULL;

  void watch(int fd, std::uint64_t id) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = id;
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  }

  void tell(Event::Kind kind, std::size_t process, int value) {
    const Event event{kind, static_cast<std::int32_t>(process), value};
    (void)!::send(channel_.get(), &event, sizeof(event), MSG_NOSIGNAL);
  }

  void obey() {
    Order order{};
    const ssize_t size = recv(channel_.get(), &order, sizeof(order), 0);
    if (size < 0 && errno == EINTR) return;
    if (size != sizeof(order)) end();  // The front is gone.
    switch (order.kind) {
      case Order::Kind::kStart:
        return start();
      case Order::Kind::kSignal:
        return signalAll(order.signal);
      case Order::Kind::kEnd:
        return end();
    }
  }

  void start() {
    children_.resize(commands_.size());
    for (std::size_t i = 0; i < commands_.size(); ++i) {
      Spawned spawned = spawn(commands_[i], inherited_);
      if (spawned.error == 0) {
        children_[i].pid = spawned.pid;
        children_[i].fd.reset(static_cast<int>(syscall(SYS_pidfd_open, spawned.pid, 0)));
        if (!children_[i].fd.valid()) {
          spawned.error = errno;
          kill(spawned.pid, SIGKILL);  // Our child, not waited for: the number is its own.
        } else {
          watch(children_[i].fd.get(), i);
          tell(Event::Kind::kStarted, i, spawned.pid);
        }
      }
      if (spawned.error != 0) {
        tell(Event::Kind::kNotStarted, i, spawned.error);
        break;
      }
    }
    // So that the processes' output ends with them, and our input is theirs.
    const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const Command& command : commands_) {
      for (const int fd : {command.input, command.output, command.error}) {
        if (fd > STDERR_FILENO) close(fd);
      }
    }
    dup2(null.get(), STDIN_FILENO);
    dup2(null.get(), STDOUT_FILENO);
  }

  void signalAll(int signal) {
    for (const Child& child : children_) {
      // Not waited for, so neither the process's number nor its group's can mean anything else.
      if (child.fd.valid()) kill(-child.pid, signal);
    }
  }

  void ended(Child& child, int status) {
    child.fd.reset();  // Which takes it out of the epoll set too.
    const auto index = static_cast<std::size_t>(&child - children_.data());
    if (WIFSIGNALED(status)) {
      tell(Event::Kind::kKilled, index, WTERMSIG(status));
    } else {
      tell(Event::Kind::kExited, index, WEXITSTATUS(status));
    }
  }

  void collect(std::size_t index) {
    Child& child = children_[index];
    int status = 0;
    if (child.fd.valid() && waitpid(child.pid, &status, WNOHANG) == child.pid) {
      ended(child, status);
    }
  }

  Child* find(pid_t pid) {
    for (Child& child : children_) {
      if (child.pid == pid && child.fd.valid()) return &child;
    }
    return nullptr;
  }

  // Waits for dead orphans that came to us; the job's own processes keep their turn in live().
  void reapOrphans() {
    for (;;) {
      siginfo_t info{};
      if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
      if (find(info.si_pid) != nullptr) {
        // Look again after it: what is behind it would give no new signal.
        kill(getpid(), SIGCHLD);
        return;
      }
      waitpid(info.si_pid, nullptr, WNOHANG);
    }
  }

  [[noreturn]] void end() {
    const auto left = endDescendants({}, Deadline::after(kEndLimit), [this](pid_t pid, int status) {
      if (Child* child = find(pid)) ended(*child, status);
    });
    removeDirectories(litter_);
    tell(Event::Kind::kEnded, 0, static_cast<int>(left.size()));
    _exit(0);
  }

  const std::vector<Command>& commands_;
  const Inherited& inherited_;
  const std::vector<std::string>& litter_;
  UniqueFd channel_;
  UniqueFd epoll_;
  std::vector<Child> children_;
};

}  // namespace

Result<Guardian> Guardian::create(const std::vector<Command>& commands, const Inherited& inherited,
                                  const std::vector<std::string>& litter) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return {StatusCode::kIo, fmt::format("no socket pair: {}", std::strerror(errno))};
  }
  UniqueFd front(ends[0]);
  UniqueFd guardian(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return {StatusCode::kIo, fmt::format("no process: {}", std::strerror(errno))};
  if (pid == 0) {
    front.reset();
    Guard(commands, inherited, litter, std::move(guardian)).live();
  }
  return Guardian(std::move(front), pid);
}

Guardian::~Guardian() {
  if (!channel_.valid()) return;  // Moved from.
  channel_.reset();
  wait();
}

// Does not wait for a guardian that does not read: the front has to stay awake. One that somebody
// stopped goes on for this; it is our child and not waited for, so the number is its own.
void Guardian::send(Order order) {
  (void)!::send(channel_.get(), &order, sizeof(order), MSG_NOSIGNAL | MSG_DONTWAIT);
  kill(pid_, SIGCONT);
}

Result<Event> Guardian::next() {
  Event event{};
  for (;;) {
    const ssize_t size = recv(channel_.get(), &event, sizeof(event), MSG_DONTWAIT);
    if (size == sizeof(event)) return event;
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return {StatusCode::kCancelled, "no event"};
    return {StatusCode::kPeerLost, "the guardian process is gone"};
  }
}

void Guardian::wait() {
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

}  // namespace colla::launch
