#include "bench/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "bench/bare.h"
#include "bench/benchmark.h"
#include "bench/coordinator.h"
#include "bench/machine.h"
#include "bench/report.h"
#include "bench/runner.h"
#include "bench/systems.h"
#include "bench/units.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

std::vector<Point> pointsOf(const CollectivesOptions& options) {
  std::vector<Point> points;
  for (const Operation operation : options.operations) {
    for (const std::size_t bytes : options.bytes) {
      points.push_back(makePoint(operation, bytes, options.np));
      if (operation == Operation::kBarrier) break;
    }
  }
  return points;
}

std::size_t largestOf(const std::vector<Point>& points) {
  return std::ranges::max(points, {}, &Point::bytes).bytes();
}

// The run of one benchmark.
class Bench {
 public:
  Bench(const CollectivesOptions& options, Coordinator& coordinator)
      : options_(options), coordinator_(coordinator), points_(pointsOf(options)) {}

  Result<std::vector<Measurement>> run() {
    warnIfBusy();
    COLLA_TRY(checkMemory());
    COLLA_TRY(startAll());
    RunnerOptions how;
    how.np = options_.np;
    how.rounds = options_.rounds;
    how.seconds = options_.seconds;
    how.progress = [this](const std::string& line) { progress_.show(line); };
    return measureAll(coordinator_, systems_, points_, how);
  }

 private:
  Status startAll() {
    Stage stage{coordinator_, options_.np, options_.net, nullptr};
    if (options_.net == Net::kVeth) {
      COLLA_TRY_ASSIGN(VethPair pair, VethPair::create(coordinator_));
      stage.veth = &veth_.emplace(std::move(pair));
    }
    for (const SystemInfo& info : collaSystems()) COLLA_TRY(start(info, collaSystem(stage, info)));
    for (const std::string& peer : options_.peers) COLLA_TRY(startPeer(stage, peer));
    if (options_.net == Net::kShm) {
      COLLA_TRY_ASSIGN(bareMemory_, BareMemory::create(options_.np, largestOf(points_)));
      COLLA_TRY(start({"bare", "shared", "memory", true}, bareSystem(stage, *bareMemory_)));
    }
    return {};
  }

  std::vector<SystemInfo> collaSystems() const {
    if (options_.net != Net::kShm) {
      return {{"colla-tcp-plain", "private", "tcp-plain", false},
              {"colla-tcp", "private", "tcp", false}};
    }
    std::vector<SystemInfo> infos;
    for (const std::string& buffers : options_.buffers) {
      infos.push_back({buffers == "shared" ? "colla" : "colla-private", buffers, "shm", false});
    }
    return infos;
  }

  Status startPeer(const Stage& stage, const std::string& peer) {
    const std::string transport =
        peer == "openmpi" && options_.net == Net::kShm ? "shm" : "tcp-plain";
    const auto spec = peer == "gloo" ? glooSystem(stage) : openMpiSystem(stage);
    const Status status =
        spec.ok() ? start({peer, "private", transport, false}, *spec) : spec.status();
    if (status.ok()) return {};
    if (options_.peersRequired || coordinator_.signal() != 0) return status.withContext(peer);
    progress_.clear();
    fmt::print(stderr, "colla bench: {} is left out: {}\n", peer, status.message());
    return {};
  }

  Status start(const SystemInfo& info, const SystemSpec& spec) {
    progress_.show("start " + info.name);
    COLLA_TRY(coordinator_.start(spec, Deadline::after(120s)));
    systems_.push_back(info);
    return {};
  }

  // Every system holds its buffers, one for input and one for output, all at the same time.
  Status checkMemory() const {
    const std::size_t bare = options_.net == Net::kShm ? 1 : 0;
    const std::size_t systems = collaSystems().size() + options_.peers.size() + bare;
    const std::size_t need = 2 * largestOf(points_) * options_.np * systems;
    const std::size_t have = availableMemory();
    if (need <= have) return {};
    return {StatusCode::kNoMemory,
            fmt::format("{} systems of {} ranks with buffers of {} need up to {:.1f} GB, and only "
                        "{:.1f} GB are free: choose smaller --bytes or fewer --peers",
                        systems, options_.np, bytesText(largestOf(points_)),
                        static_cast<double>(need) / 1e9, static_cast<double>(have) / 1e9)};
  }

  const CollectivesOptions& options_;
  Coordinator& coordinator_;
  const std::vector<Point> points_;
  std::optional<VethPair> veth_;
  std::shared_ptr<BareMemory> bareMemory_;
  std::vector<SystemInfo> systems_;
  ProgressLine progress_;
};

}  // namespace

int benchCollectives(const CollectivesOptions& options) {
  return runBenchmark(options.jsonFile, [&](Coordinator& coordinator) -> Result<Findings> {
    COLLA_TRY_ASSIGN(const auto measured, Bench(options, coordinator).run());
    return Findings{table(measured), json(measured)};
  });
}

}  // namespace colla::bench
