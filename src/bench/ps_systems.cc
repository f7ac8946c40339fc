#include "bench/ps_systems.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"
#include "bench/peers/embedded.h"
#include "bench/systems.h"

namespace colla::bench {
namespace {

// Ports of the loopback interface that nobody has. The peers bind them by number, so another
// process may be faster: then they say so.
Result<std::vector<int>> freePorts(int count) {
  std::vector<UniqueFd> held;  // All at once, so that they differ.
  std::vector<int> ports;
  for (int i = 0; i < count; ++i) {
    UniqueFd& fd = held.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (!fd.valid() || bind(fd.get(), generic, length) != 0 ||
        getsockname(fd.get(), generic, &length) != 0) {
      return {StatusCode::kIo, fmt::format("find a free port: {}", std::strerror(errno))};
    }
    ports.push_back(ntohs(address.sin_port));
  }
  return ports;
}

// Of a peer.
ProcessSpec process(const TrainSystem& system, const std::string& role, int number) {
  ProcessSpec spec;
  spec.name = fmt::format("{} {} {}", system.name, role, number);
  spec.environment["OMP_NUM_THREADS"] = std::string("1");
  return spec;
}

}  // namespace

std::vector<TrainSystem> collaPsSystems() {
  return {{"colla-2", 2, false, false},
          {"colla-ps-sync", 2, false, false},
          {"colla-ps-async", 2, true, true}};
}

TrainSystem peerPsSystem(const std::string& name) { return {name, 2, false, false}; }

SystemSpec startCollaPs(Coordinator& coordinator, const TrainSystem& system,
                        const std::string& program) {
  const std::string strategy =
      system.name == "colla-2" ? "allreduce" : system.name.substr(std::strlen("colla-"));
  const int servers = strategy == "allreduce" ? 0 : 1;
  const Stage stage{coordinator, system.workers, Net::kShm, nullptr, servers};
  return collaJob(stage, system.name, "shm", [&](int rank, ProcessSpec& process) {
    process.program = {program,
                       coordinator.socketPath(),
                       system.name,
                       fmt::format("{}", rank),
                       fmt::format("{}", system.workers),
                       strategy};
    process.environment["OMP_NUM_THREADS"] = std::string("1");
  });
}

Result<SystemSpec> startMxnet(Coordinator& coordinator, const TrainSystem& system,
                              const std::string& python) {
  COLLA_TRY_ASSIGN(const std::string script,
                   coordinator.scratch().write("mxnet_agent.py", kMxnetAgent));
  COLLA_TRY_ASSIGN(const std::vector<int> ports, freePorts(1));
  SystemSpec spec{system.name, system.workers, {}};
  const auto add = [&](const std::string& role, int number, std::vector<std::string> arguments) {
    ProcessSpec one = process(system, role == "worker" ? "rank" : role, number);
    one.program = {python, "-W", "ignore"};
    one.program.insert(one.program.end(), arguments.begin(), arguments.end());
    one.environment["DMLC_ROLE"] = role;
    one.environment["DMLC_PS_ROOT_URI"] = std::string("127.0.0.1");
    one.environment["DMLC_PS_ROOT_PORT"] = fmt::format("{}", ports.front());
    one.environment["DMLC_NUM_SERVER"] = std::string("1");
    one.environment["DMLC_NUM_WORKER"] = fmt::format("{}", system.workers);
    one.environment["DMLC_INTERFACE"] = std::string("lo");
    spec.processes.push_back(std::move(one));
  };
  // Importing it is all that those two do, for as long as they live.
  for (const char* role : {"scheduler", "server"}) add(role, 0, {"-c", "import mxnet"});
  for (int rank = 0; rank < system.workers; ++rank) {
    add("worker", rank,
        {script, coordinator.socketPath(), system.name, fmt::format("{}", rank),
         fmt::format("{}", system.workers)});
  }
  return spec;
}

Result<SystemSpec> startTensorFlow(Coordinator& coordinator, const TrainSystem& system,
                                   const std::string& python) {
  COLLA_TRY_ASSIGN(const std::string script, coordinator.scratch().write("tf_agent.py", kTfAgent));
  COLLA_TRY_ASSIGN(const std::vector<int> ports, freePorts(system.workers + 1));
  std::vector<std::string> addresses;
  for (const int port : ports) addresses.push_back(fmt::format("127.0.0.1:{}", port));
  SystemSpec spec{system.name, system.workers, {}};
  for (int number = 0; number <= system.workers; ++number) {  // The server first.
    const bool server = number == 0;
    const int rank = server ? 0 : number - 1;
    ProcessSpec one = process(system, server ? "server" : "rank", rank);
    one.program = {python,
                   "-W",
                   "ignore",
                   script,
                   server ? "ps" : "worker",
                   fmt::format("{}", rank),
                   fmt::format("{}", fmt::join(addresses, ",")),
                   coordinator.socketPath(),
                   system.name};
    spec.processes.push_back(std::move(one));
  }
  return spec;
}

bool isServer(const std::string& process) { return process.find(" server ") != std::string::npos; }

}  // namespace colla::bench
