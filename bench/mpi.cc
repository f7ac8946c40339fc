#include "bench/mpi.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "launch/program.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

// Debian's names where both libraries are installed, and the usual ones.
std::string findFirst(const std::string& first, const std::string& second) {
  const char* const path = std::getenv("PATH");
  for (const std::string& program : {first, second}) {
    if (launch::findProgram(program, path == nullptr ? "" : path).ok()) return program;
  }
  return second;
}

Result<std::string> compileAgent(const Stage& stage, bool mpich) {
  COLLA_TRY_ASSIGN(const std::string source, peerFile(stage.coordinator, "mpi_agent.c"));
  const std::string program =
      stage.coordinator.scratch().path(mpich ? "mpich_agent" : "openmpi_agent");
  if (std::filesystem::exists(program)) return program;
  const std::string compiler = findFirst(mpich ? "mpicc.mpich" : "mpicc.openmpi", "mpicc");
  const Status compiled = stage.coordinator.run(
      {.name = "mpicc", .program = {compiler, "-O2", "-std=gnu11", "-o", program, source}},
      Deadline::after(60s));
  if (compiled.ok()) return program;
  if (stage.coordinator.signal() != 0) return compiled;
  return {
      StatusCode::kNotFound,
      fmt::format("no working {}: apt-get install {} ({})", compiler,
                  mpich ? "mpich libmpich-dev" : "libopenmpi-dev openmpi-bin", compiled.message())};
}

// "10.78.0.1:2,10.78.0.2:2": ranks fill host by host.
std::string hostList(const Stage& stage) {
  const int lower = (stage.np + 1) / 2;
  return fmt::format("{}:{},{}:{}", Hosts::address(0), lower, Hosts::address(1), stage.np - lower);
}

// What starts a command on a host.
Result<std::string> remoteShell(const Stage& stage) {
  COLLA_TRY_ASSIGN(const std::string script, peerFile(stage.coordinator, "enter_host.sh"));
  std::error_code error;
  std::filesystem::permissions(script, std::filesystem::perms::owner_all, error);
  if (!error) return script;
  return {StatusCode::kIo, fmt::format("{}: {}", script, error.message())};
}

// mpirun runs on the first host, like any other program of it.
Status spreadOverHosts(const Stage& stage, const std::string& shell, ProcessSpec& mpirun) {
  std::string command;
  for (const std::string& word : mpirun.program) command += " '" + word + "'";
  mpirun.program = {shell, Hosts::address(0), command};
  std::string hosts;
  for (int host = 0; host < 2; ++host) {
    hosts += fmt::format("{}=/proc/{}/fd/{} ", Hosts::address(host), getpid(),
                         stage.hosts->networkNamespace(host));
  }
  mpirun.environment["COLLA_BENCH_HOSTS"] = hosts;
  return {};
}

std::vector<std::string> openMpiCommand(const Stage& stage, const std::string& shell) {
  const launch::Scratch& scratch = stage.coordinator.scratch();
  std::vector<std::string> words = {findFirst("mpirun.openmpi", "mpirun"), "--oversubscribe", "-np",
                                    fmt::format("{}", stage.np)};
  const auto option = [&](const char* name, const std::string& value) {
    words.insert(words.end(), {"--mca", name, value});
  };
  if (geteuid() == 0) words.emplace_back("--allow-run-as-root");
  // It takes every host for a machine of its own, with a core for each rank.
  if (static_cast<unsigned>(stage.np) > std::thread::hardware_concurrency()) {
    option("mpi_yield_when_idle", "1");
  }
  if (stage.net != Net::kShm) {
    option("pml", "ob1");
    option("btl_tcp_if_include", stage.interface());
  }
  if (stage.net == Net::kLoop) option("btl", "self,tcp");
  if (stage.net == Net::kVeth) {
    option("btl", "self,vader,tcp");
    option("oob_tcp_if_include", stage.interface());
    option("plm_rsh_agent", shell);
    words.insert(words.end(), {"-H", hostList(stage)});
  }
  // What it leaves behind when it is killed goes with the rest.
  option("orte_tmpdir_base", scratch.directory());
  option("btl_vader_backing_directory", scratch.memoryDirectory());
  return words;
}

std::vector<std::string> mpichCommand(const Stage& stage, const std::string& shell) {
  std::vector<std::string> words = {findFirst("mpiexec.mpich", "mpiexec"), "-n",
                                    fmt::format("{}", stage.np)};
  if (stage.net == Net::kVeth) {
    words.insert(words.end(), {"-launcher", "ssh", "-launcher-exec", shell, "-iface",
                               stage.interface(), "-hosts", hostList(stage)});
  }
  return words;
}

}  // namespace

Result<SystemSpec> mpiSystem(const Stage& stage, const std::string& library,
                             const std::string& name) {
  const bool mpich = library == "mpich";
  COLLA_TRY_ASSIGN(const std::string agent, compileAgent(stage, mpich));
  std::string shell;
  if (stage.net == Net::kVeth) {
    COLLA_TRY_ASSIGN(shell, remoteShell(stage));
  }
  ProcessSpec mpirun{.name = name};
  mpirun.program = mpich ? mpichCommand(stage, shell) : openMpiCommand(stage, shell);
  mpirun.program.insert(mpirun.program.end(), {agent, stage.coordinator.socketPath(), name});
  if (mpich && stage.net != Net::kShm) {
    mpirun.environment = {{"UCX_TLS", "tcp"}, {"UCX_NET_DEVICES", stage.interface()}};
  }
  if (stage.net == Net::kVeth) COLLA_TRY(spreadOverHosts(stage, shell, mpirun));
  return SystemSpec{name, stage.np, {std::move(mpirun)}};
}

}  // namespace colla::bench
