#include "support/processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "job/store_identity.h"
#include "rendezvous/secret.h"

namespace colla::test {

using namespace std::chrono_literals;

Processes::Processes(int count, std::vector<std::string> command, const Variables& common,
                     const std::map<int, Variables>& own, int servers) {
  static std::atomic<int> jobs{0};
  job::Place& place = place_;
  place.size = place.localSize = count;
  place.servers = servers;
  place.jobId = "test-" + std::to_string(getpid()) + "-" + std::to_string(jobs++);
  place.host = "testhost";
  place.store = "unix:@colla-" + place.jobId;
  const std::string secret = rendezvous::makeSecret();
  place.secretHex = rendezvous::secretToHex(secret);
  auto server = rendezvous::StoreServer::start({.address = place.store,
                                                .jobId = place.jobId,
                                                .secret = secret,
                                                .identity = job::storeIdentity()});
  EXPECT_TRUE(server.ok()) << server.status();
  if (server.ok()) store_ = *std::move(server);

  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  for (int rank = 0; rank < count + servers; ++rank) {
    place.role = rank < count ? Role::kWorker : Role::kServer;
    place.rank = place.localRank = rank < count ? rank : rank - count;
    if (rank == count) place.localSize = servers;
    int pipe[2];
    EXPECT_EQ(pipe2(pipe, O_CLOEXEC), 0);
    // Everything that the child needs is made before the fork: the store has a thread.
    std::vector<std::string> variables;
    const auto add = [&](const auto& more) {  // The first of a name counts.
      for (const auto& [name, value] : more) variables.push_back(fmt::format("{}={}", name, value));
    };
    if (own.contains(rank)) add(own.at(rank));
    add(common);
    add(job::toVariables(place));
    add(Variables{{"COLLA_THREADS", "1"}});
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);

    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(pipe[1], STDOUT_FILENO);
      dup2(pipe[1], STDERR_FILENO);
      execve(arguments[0], arguments.data(), environment.data());
      _exit(127);
    }
    close(pipe[1]);
    Child child;
    child.pid = pid;
    child.output.reset(pipe[0]);
    children_.push_back(std::move(child));
  }
}

Processes::~Processes() {
  for (Child& child : children_) {
    if (child.ended) continue;
    kill(child.pid, SIGKILL);
    waitpid(child.pid, nullptr, 0);
  }
}

void Processes::signal(int rank, int number) { kill(children_[rank].pid, number); }

std::vector<std::uint16_t> Processes::ports(int rank) const {
  namespace fs = std::filesystem;
  const fs::path process = "/proc/" + std::to_string(children_[rank].pid);
  std::set<std::string> sockets;
  for (const auto& entry : fs::directory_iterator(process / "fd")) {
    std::error_code gone;
    sockets.insert(fs::read_symlink(entry.path(), gone).string());
  }
  std::vector<std::uint16_t> ports;
  std::ifstream table(process / "net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
        timeout >> inode;
    if (state != "0A" || !sockets.contains("socket:[" + inode + "]")) continue;
    ports.push_back(
        static_cast<std::uint16_t>(std::stoul(local.substr(local.find(':') + 1), nullptr, 16)));
  }
  return ports;
}

void Processes::readSome(Child& child, std::chrono::milliseconds limit) {
  pollfd waiting{child.output.get(), POLLIN, 0};
  if (poll(&waiting, 1, static_cast<int>(limit.count())) <= 0) return;
  char buffer[4096];
  const ssize_t count = read(child.output.get(), buffer, sizeof(buffer));
  if (count > 0) child.said.append(buffer, static_cast<std::size_t>(count));
}

bool Processes::says(int rank, const std::string& text, std::chrono::milliseconds limit) {
  Child& child = children_[rank];
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (child.said.find(text) == std::string::npos) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    readSome(child, 20ms);
  }
  return true;
}

Processes::Ended Processes::end(int rank, std::chrono::milliseconds limit) {
  Child& child = children_[rank];
  const auto deadline = std::chrono::steady_clock::now() + limit;
  int status = 0;
  while (waitpid(child.pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      return {.code = -2, .said = child.said, .when = deadline};
    }
    readSome(child, 5ms);
  }
  Ended ended{.when = std::chrono::steady_clock::now()};
  child.ended = true;
  for (std::size_t before = ~std::size_t{0}; before != child.said.size();) {
    before = child.said.size();
    readSome(child, 0ms);
  }
  if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  ended.said = child.said;
  return ended;
}

}  // namespace colla::test
