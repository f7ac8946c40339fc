#include "launch/plan.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>

#include "base/unique_fd.h"
#include "job/cpu.h"
#include "job/environment.h"
#include "job/settings.h"
#include "launch/agent_processes.h"
#include "launch/program.h"
#include "rendezvous/secret.h"

namespace colla::launch {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Status invalid(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }

Result<std::string> randomHex(std::size_t bytes) {
  std::string hex;
  for (std::size_t i = 0; i < bytes; ++i) {
    unsigned char byte = 0;
    if (getrandom(&byte, 1, 0) != 1) return {StatusCode::kIo, "no random bytes from the kernel"};
    hex += fmt::format("{:02x}", byte);
  }
  return hex;
}

Status checkOptions(const RunOptions& options) {
  if (options.workers < 1) {
    return invalid(fmt::format("-np is {}, but a job has at least one worker", options.workers));
  }
  if (options.servers < 0) {
    return invalid(fmt::format("--ps is {}, but cannot be negative", options.servers));
  }
  if (options.workers > kMaxProcesses || options.servers > kMaxProcesses - options.workers) {
    return invalid(
        fmt::format("-np {} and --ps {} are more than the {} processes that a job may have",
                    options.workers, options.servers, kMaxProcesses));
  }
  if (options.spareWorkers < 0 || options.spareWorkers >= options.workers) {
    return invalid(
        fmt::format("--spare-workers is {}, but must be from 0 to {}: worker 0 can't be "
                    "spared",
                    options.spareWorkers, options.workers - 1));
  }
  const auto slices = options.config.integer("slices");
  if (slices > 0 && slices < options.workers) {
    return invalid(fmt::format("{} is {}, but {} workers need at least as many slices",
                               options.config.origin("slices"), slices, options.workers));
  }
  if (options.command.empty()) {
    return invalid("no program given; for example: colla run -np 2 -- ./train");
  }
  for (const auto& [name, value] : options.environment) {
    if (job::isPlaceVariable(name)) {
      return invalid(fmt::format("--env {}: this one is for `colla run` to set", name));
    }
  }
  COLLA_TRY(job::checkSecretFile(options.config));
  // A process would refuse them as well, but each for itself, and late.
  Variables given;
  for (const auto& [name, value] : options.environment) given[name] = value;
  return Config::load(job::settings(), {}, "",
                      [&](const char* name) {
                        const auto it = given.find(name);
                        return it == given.end() ? nullptr : it->second.c_str();
                      })
      .status()
      .withContext("--env");
}

// What every process has: the inherited variables, with the settings as the launcher resolved
// them.
Variables sharedVariables(const RunOptions& options, const Surroundings& surroundings,
                          int threads) {
  Variables variables;
  for (const std::string& entry : surroundings.environment) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  // An outer torchrun's: its agent serves no store to the workers of this job.
  std::erase_if(variables,
                [](const auto& each) { return each.first.starts_with("TORCHELASTIC_"); });
  variables.erase("COLLA_SECRET");  // The outer job's, if there is one.
  variables.erase("COLLA_SECRET_FD");
  variables.erase("COLLA_CONFIG");  // Its contents follow, stronger places considered.
  for (const auto& [name, value] : settingVariables(options.config)) variables[name] = value;
  for (const char* name : {"COLLA_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"}) {
    variables[name] = std::to_string(threads);
  }
  return variables;
}

}  // namespace

int findFreePort() {
  constexpr int kUsual = 29500;
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  const bool bound =
      bind(socket.get(), any, size) == 0 && getsockname(socket.get(), any, &size) == 0;
  return bound ? ntohs(address.sin_port) : kUsual;
}

std::string Process::name() const { return fmt::format("{} {}", toString(role), rank); }
std::string Process::fileName() const { return fmt::format("{}-{}", toString(role), rank); }

std::vector<std::pair<std::string, std::string>> settingVariables(const Config& config) {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const Setting& setting : config.settings()) {
    if (config.origin(setting.name) == "default") continue;
    variables.emplace_back(variableName(setting.name), config.value(setting.name));
  }
  return variables;
}

Result<Surroundings> Surroundings::here() {
  Surroundings result;
  for (char** entry = environ; *entry != nullptr; ++entry) result.environment.emplace_back(*entry);
  result.cores = job::usableCpus();
  result.host = job::hostName();
  COLLA_TRY_ASSIGN(result.jobId, randomHex(8));
  result.secretHex = rendezvous::secretToHex(rendezvous::makeSecret());
  result.freePort = findFreePort();
  return result;
}

namespace {

// Workers of different hosts have the same number of threads, for the same bits.
int threadsFor(const std::vector<PlannedHost>& hosts) {
  int threads = 0;
  for (const PlannedHost& host : hosts) {
    const auto workers = static_cast<int>(host.layout.workers.size());
    if (workers == 0) continue;
    const int here = std::max(1, host.cores / workers);
    threads = threads == 0 ? here : std::min(threads, here);
  }
  return threads;
}

// A job on this host alone.
PlannedHost onlyHost(const RunOptions& options, const Surroundings& surroundings) {
  PlannedHost host{.layout = {.name = surroundings.host, .workers = {}, .servers = {}},
                   .cores = surroundings.cores,
                   .store = "unix:@colla-" + surroundings.jobId,
                   .interface = {}};
  for (int rank = 0; rank < options.workers; ++rank) host.layout.workers.push_back(rank);
  for (int rank = 0; rank < options.servers; ++rank) host.layout.servers.push_back(rank);
  return host;
}

// What the processes of one role on one host have of their own.
void addProcesses(const PlannedHost& host, job::Place place, const Surroundings& surroundings,
                  const Variables& shared, const Variables& chosen, Plan& plan) {
  const bool worker = place.role == Role::kWorker;
  const std::vector<int>& ranks = worker ? host.layout.workers : host.layout.servers;
  place.host = host.layout.name;
  place.store = host.store;
  place.localSize = static_cast<int>(ranks.size());
  place.localRank = 0;
  for (const int rank : ranks) {
    place.rank = rank;
    Variables variables = shared;
    if (!host.interface.empty()) variables[variableName("interface")] = host.interface;
    for (const auto& [name, value] : job::toVariables(place)) variables[name] = value;
    if (worker) {
      for (const auto& [name, value] :
           job::toTorchVariables(place, surroundings.address, surroundings.freePort)) {
        variables[name] = value;
      }
    }
    for (const auto& [name, value] : chosen) variables[name] = value;
    Process& process = plan.processes[static_cast<std::size_t>(place.index())];
    process = {.role = place.role, .rank = rank, .host = place.host, .environment = {}};
    for (const auto& [name, value] : variables) {
      process.environment.push_back(fmt::format("{}={}", name, value));
    }
    ++place.localRank;
  }
}

}  // namespace

Status checkRunOptions(const RunOptions& options) { return checkOptions(options); }

Result<Plan> makePlan(const RunOptions& options, const Surroundings& surroundings) {
  COLLA_TRY(checkOptions(options));
  Plan plan;
  plan.jobId = surroundings.jobId;
  plan.secretHex = surroundings.secretHex;
  plan.host = surroundings.host;
  plan.arguments = options.command;
  plan.remote = !surroundings.hosts.empty();
  const std::vector<PlannedHost> hosts =
      plan.remote ? surroundings.hosts : std::vector<PlannedHost>{onlyHost(options, surroundings)};
  plan.store = hosts.front().store;

  const auto wanted = static_cast<int>(options.config.integer("threads"));
  Variables shared =
      sharedVariables(options, surroundings, wanted > 0 ? wanted : threadsFor(hosts));
  if (plan.remote)
    std::erase_if(shared, [](const auto& each) { return belongsToHost(each.first); });
  Variables chosen;
  for (const auto& [name, value] : options.environment) chosen[name] = value;
  const std::string& name = options.program.empty() ? plan.arguments.front() : options.program;
  if (plan.remote) {
    plan.program = name;  // Each host finds it.
  } else {
    const auto path = chosen.contains("PATH") ? chosen.find("PATH") : shared.find("PATH");
    COLLA_TRY_ASSIGN(plan.program,
                     findProgram(name, path == shared.end() ? "/usr/bin:/bin" : path->second));
  }

  job::Place place;
  place.size = options.workers;
  place.servers = options.servers;
  place.jobId = plan.jobId;
  place.secretFd = surroundings.secretFd;
  plan.processes.resize(static_cast<std::size_t>(options.workers + options.servers));
  for (const PlannedHost& host : hosts) {
    for (const Role role : {Role::kWorker, Role::kServer}) {
      place.role = role;
      addProcesses(host, place, surroundings, shared, chosen, plan);
    }
  }
  return plan;
}

}  // namespace colla::launch
