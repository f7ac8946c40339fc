#include "bench/systems.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "bench/peers/embedded.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

std::string rankName(const std::string& system, int rank) {
  return fmt::format("{} rank {}", system, rank);
}

// Candidates in the order in which a user would expect them: what they chose, the environment
// that ./colla made next to the build, what is on the path.
std::vector<std::string> pythonCandidates() {
  if (const char* chosen = std::getenv("COLLA_TORCH_PYTHON")) return {chosen};
  std::vector<std::string> candidates;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (auto directory = program.parent_path(); directory.has_relative_path();
       directory = directory.parent_path()) {
    const auto python = directory / ".venv/bin/python";
    if (std::filesystem::exists(python, error)) candidates.push_back(python);
  }
  candidates.emplace_back("python3");
  return candidates;
}

}  // namespace

Result<std::string> findPythonWithTorch(Coordinator& coordinator) {
  constexpr auto kLook =
      "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
  const auto candidates = pythonCandidates();
  for (const std::string& python : candidates) {
    ProcessSpec look;
    look.name = python;
    look.program = {python, "-c", kLook};
    const auto found = coordinator.run(look, Deadline::after(30s));
    if (found.ok()) return python;
    if (coordinator.signal() != 0) return found.status();
  }
  return {StatusCode::kNotFound,
          fmt::format("no Python with torch (tried {}): run ./colla once, which makes .venv, or "
                      "pip install torch, or set COLLA_TORCH_PYTHON",
                      fmt::join(candidates, ", "))};
}

SystemSpec bareSystem(const Stage& stage, const BareMemory& memory) {
  SystemSpec spec{"bare", stage.np, {}};
  for (int rank = 0; rank < stage.np; ++rank) {
    const AgentPlace place{stage.coordinator.socketPath(), spec.name, rank, stage.np};
    ProcessSpec process;
    process.name = rankName(spec.name, rank);
    process.body = [place, &memory] {
      return exitCode(serveAgent(place, *makeBareWorkload(memory, place.rank)));
    };
    spec.processes.push_back(std::move(process));
  }
  return spec;
}

Result<SystemSpec> glooSystem(const Stage& stage) {
  COLLA_TRY_ASSIGN(const std::string python, findPythonWithTorch(stage.coordinator));
  const Scratch& scratch = stage.coordinator.scratch();
  COLLA_TRY_ASSIGN(const std::string script, scratch.write("gloo_agent.py", kGlooAgent));

  SystemSpec spec{"gloo", stage.np, {}};
  for (int rank = 0; rank < stage.np; ++rank) {
    ProcessSpec process;
    process.name = rankName(spec.name, rank);
    process.program = {python,
                       script,
                       stage.coordinator.socketPath(),
                       spec.name,
                       fmt::format("{}", rank),
                       fmt::format("{}", stage.np),
                       scratch.path("gloo_store")};
    process.environment["GLOO_SOCKET_IFNAME"] =
        std::string(stage.veth == nullptr ? "lo" : VethPair::kInterface);
    process.environment["OMP_NUM_THREADS"] = std::string("1");
    process.networkNamespace = stage.networkNamespace(rank);
    spec.processes.push_back(std::move(process));
  }
  return spec;
}

Result<SystemSpec> openMpiSystem(const Stage& stage) {
  if (stage.net == Net::kVeth) {
    return {StatusCode::kUnsupported,
            "mpirun starts all ranks in one network namespace: --net shm or loop only"};
  }
  const Scratch& scratch = stage.coordinator.scratch();
  COLLA_TRY_ASSIGN(const std::string source, scratch.write("openmpi_agent.c", kOpenMpiAgent));
  ProcessSpec compile;
  compile.name = "mpicc";
  compile.program = {"mpicc", "-O2", "-std=gnu11", "-o", scratch.path("openmpi_agent"), source};
  const auto compiled = stage.coordinator.run(compile, Deadline::after(60s));
  if (!compiled.ok()) {
    if (stage.coordinator.signal() != 0) return compiled.status();
    return {StatusCode::kNotFound,
            fmt::format("no working mpicc: apt-get install libopenmpi-dev openmpi-bin ({})",
                        compiled.status().message())};
  }

  SystemSpec spec{"openmpi", stage.np, {}};
  ProcessSpec mpirun;
  mpirun.name = spec.name;
  mpirun.program = {"mpirun", "--oversubscribe", "-np", fmt::format("{}", stage.np)};
  const auto option = [&](const char* name, const std::string& value) {
    mpirun.program.insert(mpirun.program.end(), {"--mca", name, value});
  };
  if (geteuid() == 0) mpirun.program.emplace_back("--allow-run-as-root");
  if (stage.net == Net::kLoop) {
    option("pml", "ob1");
    option("btl", "self,tcp");
    option("btl_tcp_if_include", "lo");
  }
  // What it leaves behind when it is killed goes with the rest.
  option("orte_tmpdir_base", scratch.directory());
  option("btl_vader_backing_directory", scratch.memoryDirectory());
  mpirun.program.insert(mpirun.program.end(),
                        {scratch.path("openmpi_agent"), stage.coordinator.socketPath(), spec.name});
  spec.processes.push_back(std::move(mpirun));
  return spec;
}

}  // namespace colla::bench
