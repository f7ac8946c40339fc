#include "bench/peer_python.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace colla::bench {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr auto kVenvLimit = 300s;
constexpr auto kInstallLimit = 1800s;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The interpreter that environments are made of.
std::string basePython() {
  const std::string chosen = variable("COLLA_PEER_PYTHON");
  return chosen.empty() ? "python3" : chosen;
}

Status install(Coordinator& coordinator, const PeerPackages& packages, const std::string& where) {
  ProcessSpec venv;
  venv.name = basePython() + " -m venv";
  venv.program = {basePython(), "-m", "venv", where};
  const auto made = coordinator.run(venv, Deadline::after(kVenvLimit));
  if (!made.ok()) {
    if (coordinator.signal() != 0) return made.status();
    return {StatusCode::kNotFound,
            fmt::format("cannot make a Python environment: apt-get install python3-venv, or set "
                        "COLLA_PEER_PYTHON ({})",
                        made.status().message())};
  }
  ProcessSpec pip;
  pip.name = "pip install";
  pip.program = {where + "/bin/python",        "-m", "pip", "install", "--quiet",
                 "--disable-pip-version-check"};
  pip.program.insert(pip.program.end(), packages.requirements.begin(), packages.requirements.end());
  const auto installed = coordinator.run(pip, Deadline::after(kInstallLimit));
  if (installed.ok() || coordinator.signal() != 0) return installed.status();
  return {
      StatusCode::kNotFound,
      fmt::format("cannot install {} from PyPI: see that pip reaches it (a proxy, "
                  "PIP_INDEX_URL), with Python 3.8 to 3.11 for mxnet (COLLA_PEER_PYTHON chooses "
                  "one), or leave it out of --peers ({})",
                  fmt::join(packages.requirements, " "), installed.status().message())};
}

}  // namespace

PeerPackages peerPackages(const std::string& peer) {
  // MXNet still says np.bool, which newer numpy has not.
  if (peer == "mxnet") return {"mxnet-1.9.1", {"mxnet==1.9.1", "numpy<1.24"}};
  return {"tensorflow-cpu-2.21.0", {"tensorflow-cpu==2.21.0"}};
}

Result<std::string> peerCache() {
  const std::string cache = variable("XDG_CACHE_HOME");
  if (cache.starts_with("/"))
    return cache + "/colla/bench";  // Others are to be ignored, it is said.
  const std::string home = variable("HOME");
  if (!home.empty()) return home + "/.cache/colla/bench";
  return {StatusCode::kNotFound, "no directory for peers: set XDG_CACHE_HOME or HOME"};
}

Result<std::string> peerPython(Coordinator& coordinator, const std::string& peer, bool make,
                               const std::function<void(const std::string& line)>& tell) {
  const PeerPackages packages = peerPackages(peer);
  COLLA_TRY_ASSIGN(const std::string cache, peerCache());
  const std::string place = fmt::format("{}/{}", cache, packages.name);
  const std::string python = place + "/bin/python";
  std::error_code error;
  if (fs::exists(python, error)) return python;
  if (!make) {
    return {StatusCode::kNotFound,
            fmt::format("it is not in {}: --peers {} installs it there", place, peer)};
  }
  fs::create_directories(cache, error);
  if (error) {
    return {StatusCode::kIo, fmt::format("make {}: {}; set XDG_CACHE_HOME to a place that can be "
                                         "written to",
                                         cache, error.message())};
  }
  tell(fmt::format("install {} into {} (once; it takes minutes)",
                   fmt::join(packages.requirements, " "), place));
  // Python finds its environment by where it is started from, so it can be moved.
  const std::string unfinished = fmt::format("{}.{}", place, getpid());
  const Status status = install(coordinator, packages, unfinished);
  if (status.ok()) fs::rename(unfinished, place, error);
  std::error_code ignored;
  fs::remove_all(unfinished, ignored);
  if (!status.ok()) return status;
  // Another run may have been faster: then its environment is there.
  if (fs::exists(python, ignored)) return python;
  return {StatusCode::kIo, fmt::format("rename {} to {}: {}", unfinished, place, error.message())};
}

}  // namespace colla::bench
