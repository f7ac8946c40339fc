// PMI-1's wire protocol: a line each way, "cmd=NAME key=value …". It has no time limits, but its
// lines come over a descriptor that can be waited for.
#include <dlfcn.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

#include "job/process_manager.h"
#include "transport/net/socket.h"

namespace colla::job {
namespace {

using namespace std::chrono_literals;

Status lostMpirun(std::string_view what) {
  return {StatusCode::kPeerLost, fmt::format("mpirun's process manager {}", what)};
}

// The word after "name=" in `line`; empty if there is none.
std::string field(std::string_view line, std::string_view name) {
  const std::string start = fmt::format(" {}=", name);
  const auto at = line.find(start);
  if (at == std::string_view::npos) return {};
  const auto value = line.substr(at + start.size());
  return std::string(value.substr(0, value.find(' ')));
}

// Whether MPI is in use in this process, which then says goodbye to mpirun by itself. Python loads
// libraries that only their own module sees: they are asked by name, MPICH's and Intel MPI's.
bool mpiIsInUse() {
  for (const char* name : {"libmpich.so.12", "libmpi.so.12"}) {
    void* const library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    void* const symbol = dlsym(library, "MPI_Initialized");
    int yes = 0;
    if (symbol != nullptr && reinterpret_cast<int (*)(int*)>(symbol)(&yes) == 0 && yes != 0) {
      return true;
    }
  }
  return false;
}

class Pmi final : public ProcessManager {
 public:
  Pmi(int descriptor, int rank) : descriptor_(descriptor), rank_(rank) {}
  ~Pmi() override {
    // Without a goodbye mpirun would take the process's end for a crash.
    if (spoke_ && !mpiIsInUse()) {
      [[maybe_unused]] const auto ended = ask("cmd=finalize", Deadline::after(5s));
    }
  }

  Result<std::string> jobName(Deadline deadline) override {
    if (space_.empty()) {
      COLLA_TRY_ASSIGN(const std::string answer, ask("cmd=get_my_kvsname", deadline));
      space_ = field(answer, "kvsname");
      if (space_.empty()) return lostMpirun("tells no name of the job");
    }
    return space_;
  }

  Status put(const std::string& key, const std::string& value, Deadline deadline) override {
    COLLA_TRY(jobName(deadline).status());
    COLLA_TRY_ASSIGN(const std::string answer, ask(fmt::format("cmd=put kvsname={} key={} value={}",
                                                               space_, full(rank_, key), value),
                                                   deadline));
    if (field(answer, "rc") == "0") return {};
    return lostMpirun(fmt::format("does not take a value: {}", answer));
  }

  Result<std::string> get(int rank, const std::string& key, Deadline deadline) override {
    COLLA_TRY(jobName(deadline).status());
    COLLA_TRY_ASSIGN(
        const std::string answer,
        ask(fmt::format("cmd=get kvsname={} key={}", space_, full(rank, key)), deadline));
    if (field(answer, "rc") == "0") return field(answer, "value");
    return lostMpirun(fmt::format("has nothing from rank {}", rank));
  }

  Status fence(Deadline deadline) override { return ask("cmd=barrier_in", deadline).status(); }

 private:
  static std::string full(int rank, const std::string& key) {
    return fmt::format("colla-{}-{}", rank, key);
  }

  Result<std::string> ask(std::string line, Deadline deadline) {
    spoke_ = true;
    line += '\n';
    if (::send(descriptor_, line.data(), line.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(line.size())) {
      return lostMpirun(fmt::format("can't be told anything: {}", std::strerror(errno)));
    }
    std::string answer;
    while (answer.empty() || answer.back() != '\n') {
      COLLA_TRY(transport::net::waitFor(descriptor_, POLLIN, deadline));
      char letter = 0;
      // No further than the end of the line: what comes after it may be MPI's.
      const ssize_t size = ::recv(descriptor_, &letter, 1, 0);
      if (size <= 0) return lostMpirun("is gone");
      answer += letter;
    }
    answer.pop_back();
    return " " + answer;
  }

  const int descriptor_;  // mpirun's, never closed here.
  const int rank_;
  std::string space_;
  bool spoke_ = false;
};

}  // namespace

Result<std::unique_ptr<ProcessManager>> openPmi(int descriptor, int rank) {
  return std::unique_ptr<ProcessManager>(new Pmi(descriptor, rank));
}

}  // namespace colla::job
