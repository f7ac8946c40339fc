// One ps::Server after another, each for the workers of an epoch.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/log.h"
#include "colla/server.h"
#include "job/cluster.h"
#include "ps/client_options.h"
#include "ps/server.h"

namespace colla {
namespace {

// Where this server is in the lists of all processes; empty if a launcher started it, which speaks
// for all of its processes.
std::string listedAddress() {
  const auto words = job::readWords([](const char* name) { return std::getenv(name); });
  if (!words.given()) return "";
  const auto cluster = job::parseCluster(words);
  return cluster.ok() ? cluster->self().text() : "";
}

}  // namespace

Status serve(Job& job) {
  if (job.role() != Role::kServer) {
    return {StatusCode::kInvalidArgument, "this process is a worker: only servers serve"};
  }
  const std::string address = listedAddress();
  if (!address.empty()) {
    const int workers = job.epoch().workers();
    log::info("serving {} worker{} at {}", workers, workers == 1 ? "" : "s", address);
  }
  std::unique_ptr<ps::Holding> kept;
  for (std::uint32_t life = 0;; ++life) {
    const Epoch epoch = job.epoch();
    ps::Server server({.transport = job.transport(),
                       .rank = job.rank(),
                       .servers = job.servers(),
                       .workers = epoch.workers(),
                       .recorder = epoch.recorder(),
                       .names = job.names(),
                       .peers = ps::peersOf(epoch, job),
                       .timeout = job.timeout(),
                       .threads = job.threads(),
                       .life = life},
                      std::move(kept));
    COLLA_TRY(server.run());
    if (!server.again()) break;
    kept = server.takeKept();
    // The workers know who is in the next epoch.
    if (server.epochIsOver()) COLLA_TRY(job.replaceEpoch(std::nullopt));
  }
  if (!address.empty()) log::info("all workers have left: this server has done its work");
  return {};
}

}  // namespace colla
