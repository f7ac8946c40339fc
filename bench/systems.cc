#include "bench/systems.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/unique_fd.h"
#include "bench/peers/embedded.h"
#include "job/environment.h"
#include "job/store_identity.h"
#include "launch/program.h"
#include "rendezvous/secret.h"
#include "rendezvous/store_server.h"
#include "transport/net/address.h"
#include "transport/net/socket.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

std::string rankName(const std::string& system, int rank) {
  return fmt::format("{} rank {}", system, rank);
}

Status serveStore(const rendezvous::StoreServerOptions& options) {
  COLLA_TRY_ASSIGN(const auto server, rendezvous::StoreServer::start(options));
  while (true) pause();  // Until the coordinator ends it.
}

job::Place placeOf(const Stage& stage, int rank) {
  job::Place place;
  place.launcher = "colla";
  place.rank = rank;
  place.size = stage.np;
  place.localRank = rank;
  place.localSize = stage.np;
  place.host = job::hostName();
  if (stage.hosts != nullptr) {
    place.localRank = place.localSize = 0;
    for (int other = 0; other < stage.np; ++other) {
      if (stage.hostOf(other) != stage.hostOf(rank)) continue;
      ++place.localSize;
      place.localRank += other < rank ? 1 : 0;
    }
    place.host = fmt::format("side-{}", stage.hostOf(rank));
  }
  return place;
}

// Addresses on the loopback interface with free ports. The peers bind them by number, so a
// different process may be faster: then they say so.
Result<std::vector<std::string>> freeAddresses(int count) {
  COLLA_TRY_ASSIGN(const auto any, transport::net::Address::parse("127.0.0.1:0"));
  std::vector<UniqueFd> held;  // All at once, so that they differ.
  std::vector<std::string> addresses;
  for (int i = 0; i < count; ++i) {
    COLLA_TRY_ASSIGN(held.emplace_back(), transport::net::listenOn(any));
    COLLA_TRY_ASSIGN(const auto local, transport::net::Address::ofLocalEnd(held.back().get()));
    addresses.push_back(local.text());
  }
  return addresses;
}

}  // namespace

SystemSpec forkedSystem(const Stage& stage, const std::string& name,
                        const std::function<Status(const AgentPlace& place)>& agent) {
  SystemSpec spec{name, stage.np, {}};
  for (int rank = 0; rank < stage.np; ++rank) {
    const AgentPlace place{stage.coordinator.socketPath(), name, rank, stage.np};
    spec.processes.push_back(
        {.name = rankName(name, rank), .body = [agent, place] { return exitCode(agent(place)); }});
  }
  return spec;
}

SystemSpec collaJob(const Stage& stage, const std::string& name, const std::string& transport,
                    const std::function<void(int rank, ProcessSpec& process)>& work) {
  // In a namespace of our own every port is free that no other system took.
  constexpr int kFirstPort = 29400;
  const std::string secret = rendezvous::makeSecret();
  rendezvous::StoreServerOptions store;
  store.jobId = fmt::format("bench-{}-{}", getpid(), name);
  store.secret = secret;
  store.identity = job::storeIdentity();
  store.address = stage.hosts == nullptr ? fmt::format("unix:@colla-{}", store.jobId)
                                         : fmt::format("{}:{}", Hosts::address(0),
                                                       kFirstPort + stage.coordinator.systems());

  SystemSpec spec{name, stage.np, {}};
  spec.processes.push_back({.name = name + " store",
                            .body = [store] { return exitCode(serveStore(store)); },
                            .networkNamespace = stage.networkNamespace(0)});

  for (int number = 0; number < stage.np + stage.servers; ++number) {
    const bool worker = number < stage.np;
    const int rank = worker ? number : number - stage.np;
    job::Place place = placeOf(stage, rank);
    place.servers = stage.servers;
    if (!worker) {
      place.role = Role::kServer;
      place.localSize = stage.servers;
    }
    place.jobId = store.jobId;
    place.store = store.address;
    place.secretHex = rendezvous::secretToHex(secret);
    ProcessSpec process;
    process.name = fmt::format("{} {} {}", name, worker ? "rank" : "server", rank);
    for (const auto& [variable, value] : job::toVariables(place)) {
      process.environment[variable] = value;
    }
    process.environment["COLLA_TRANSPORT"] = transport;
    // Hosts that are one machine: UCX would find its shared memory.
    if (transport == "ucx") process.environment["UCX_TLS"] = "tcp";
    process.environment["COLLA_THREADS"] = "1";
    process.environment["OMP_NUM_THREADS"] = "1";
    if (stage.net != Net::kShm) process.environment["COLLA_INTERFACE"] = stage.interface();
    process.networkNamespace = stage.networkNamespace(rank);
    work(number, process);
    spec.processes.push_back(std::move(process));
  }
  return spec;
}

Result<SystemSpec> scriptSystem(const Stage& stage, const std::string& name,
                                const std::string& python, const std::string& script) {
  const launch::Scratch& scratch = stage.coordinator.scratch();
  COLLA_TRY_ASSIGN(const std::string path, peerFile(stage.coordinator, script));
  SystemSpec spec{name, stage.np, {}};
  for (int rank = 0; rank < stage.np; ++rank) {
    spec.processes.push_back(
        {.name = rankName(name, rank),
         .program = {python, path, stage.coordinator.socketPath(), name, fmt::format("{}", rank),
                     fmt::format("{}", stage.np), scratch.path(name + "_store")},
         .environment = {{"GLOO_SOCKET_IFNAME", stage.interface()},
                         {"OMP_NUM_THREADS", "1"},
                         // A folder that torch makes even where nothing is compiled.
                         {"TORCHINDUCTOR_CACHE_DIR", scratch.path("inductor")}},
         .networkNamespace = stage.networkNamespace(rank)});
  }
  return spec;
}

Result<SystemSpec> peerServerSystem(const Stage& stage, const std::string& name,
                                    const std::string& python) {
  const bool mxnet = name == "mxnet";
  COLLA_TRY_ASSIGN(const std::string script, peerFile(stage.coordinator, name + "_agent.py"));
  COLLA_TRY_ASSIGN(const auto addresses, freeAddresses(stage.np + 1));
  SystemSpec spec{name, stage.np, {}};
  const auto add = [&](const std::string& role, int rank, bool agent) {
    ProcessSpec one{.name = fmt::format("{} {} {}", name, role == "worker" ? "rank" : role, rank),
                    .program = {python, "-W", "ignore"},
                    .environment = {{"OMP_NUM_THREADS", "1"}}};
    if (mxnet) {
      one.environment["DMLC_ROLE"] = role;
      one.environment["DMLC_PS_ROOT_URI"] = "127.0.0.1";
      const std::string& root = addresses.front();
      one.environment["DMLC_PS_ROOT_PORT"] = root.substr(root.rfind(':') + 1);
      one.environment["DMLC_NUM_SERVER"] = "1";
      one.environment["DMLC_NUM_WORKER"] = fmt::format("{}", stage.np);
      one.environment["DMLC_INTERFACE"] = "lo";
    }
    if (mxnet && !agent) {  // Importing it is all that these do, for as long as they live.
      one.program.insert(one.program.end(), {"-c", "import mxnet"});
    } else {
      one.program.insert(one.program.end(),
                         {script, stage.coordinator.socketPath(), name, fmt::format("{}", rank),
                          fmt::format("{}", stage.np), agent ? "worker" : "ps",
                          fmt::format("{}", fmt::join(addresses, ","))});
    }
    spec.processes.push_back(std::move(one));
  };
  if (mxnet) add("scheduler", 0, false);
  add("server", 0, false);
  for (int rank = 0; rank < stage.np; ++rank) add("worker", rank, true);
  return spec;
}

Result<std::string> peerPython(Coordinator& coordinator, const std::string& environment, bool make,
                               const std::function<void(const std::string& line)>& tell) {
  COLLA_TRY_ASSIGN(const std::string script, peerFile(coordinator, "environments.py"));
  const char* const path = std::getenv("PATH");
  std::string interpreter;
  for (const char* variable : {"", "COLLA_TORCH_PYTHON", "COLLA_PEER_PYTHON"}) {
    const char* const chosen = *variable == '\0' ? "python3" : std::getenv(variable);
    if (!interpreter.empty() || chosen == nullptr) continue;
    const auto found = launch::findProgram(chosen, path == nullptr ? "" : path);
    if (found.ok()) interpreter = *found;
  }
  if (interpreter.empty()) {
    return {StatusCode::kNotFound, "there is no python3 to look for it: apt-get install python3"};
  }
  std::string last;
  ProcessSpec find{.name = "environments.py"};
  find.heard = [&](const std::string& line) {
    if (line.starts_with("install ")) tell(line);
    last = line;
  };
  std::error_code error;
  find.program = {interpreter, script, environment, "--beside",
                  std::filesystem::read_symlink("/proc/self/exe", error).parent_path()};
  if (make) find.program.emplace_back("--make");
  const Status status = coordinator.run(find, Deadline::after(2400s));
  if (status.ok() && last.starts_with("/")) return last;
  if (status.code() == StatusCode::kCancelled) return status;
  return {StatusCode::kNotFound, last.empty() ? std::string(status.message()) : last};
}

Result<std::string> peerFile(Coordinator& coordinator, const std::string& name) {
  for (const PeerFile& file : kPeerFiles) {
    COLLA_TRY(coordinator.scratch().write(std::string(file.name), file.text).status());
  }
  return coordinator.scratch().path(name);
}

}  // namespace colla::bench
