// `colla bench collectives`: Colla, its peers and the bare loop at every operation and size.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "bench/benchmark.h"
#include "bench/collective_agents.h"
#include "bench/machine.h"
#include "bench/mpi.h"
#include "bench/network.h"
#include "bench/operation.h"
#include "bench/systems.h"
#include "transport/transports.h"

namespace colla::bench {
namespace {

struct CollectivesOptions {
  CommonOptions common{.peers = {"gloo", "openmpi", "mpich"}, .seconds = 0.15};
  int np = 2;
  std::vector<std::string> operations = {"allreduce"};
  std::vector<std::string> bytes = {"1K", "64K", "4M", "32M", "100M"};
  std::vector<std::string> buffers = {"shared", "private"};
  std::string net = "shm";
};

// A system as the records name it.
struct CollectiveSystem {
  std::string name;
  std::string buffers;    // "shared" or "private".
  std::string transport;  // "shm", "tcp", "tcp-plain"; "memory" where no library is.
  std::string algorithm = "auto";

  bool can(Operation operation) const {
    return name != "bare" || operation == Operation::kAllreduce;
  }
};

std::vector<Point> pointsOf(const CollectivesOptions& options) {
  std::vector<Point> points;
  for (const std::string& name : distinct(options.operations)) {
    const Operation operation = *parseOperation(name);
    for (const std::string& bytes : distinct(options.bytes)) {
      points.push_back(makePoint(operation, *parseBytes(bytes), options.np));
      if (operation == Operation::kBarrier) break;
    }
  }
  return points;
}

class CollectivesBench : public Bench {
 public:
  CollectivesBench(const CollectivesOptions& options, Coordinator& coordinator)
      : Bench(options.common, coordinator),
        options_(options),
        net_(*parseNet(options.net)),
        points_(pointsOf(options)),
        largest_(std::ranges::max(points_, {}, &Point::bytes).bytes()) {}

  Result<Findings> run() {
    warnIfBusy();
    COLLA_TRY(checkRoom());
    COLLA_TRY(startAll());
    Records records;
    for (const Point& point : points_) COLLA_TRY(measurePoint(point, records));
    Ratios ratios{
        {},
        [](const Record& record) { return 1 / record["seconds"].get<double>(); },
        [](const Record& record) { return record["op"].dump() + record["bytes"].dump(); }};
    for (const CollectiveSystem& system : collaSystems()) ratios.systems.push_back(system.name);
    const auto speed = [](const Record& record) {
      return record["bytes"] == 0 ? "-" : numberText(record["gb_per_s"].get<double>());
    };
    return Findings{
        table(records,
              {textColumn("op", "op"),
               numberColumn("bytes", "bytes", bytesText),
               numberColumn("np", "np", [](double np) { return fmt::format("{:.0f}", np); }),
               textColumn("system", "system"),
               numberColumn("time", "seconds", durationText),
               {"GB/s", speed}},
              ratios),
        std::move(records)};
  }

 private:
  std::vector<CollectiveSystem> collaSystems() const {
    std::vector<CollectiveSystem> systems;
    if (net_ != Net::kShm) {
      systems = {{"colla-tcp-plain", "private", "tcp-plain"}, {"colla-tcp", "private", "tcp"}};
      if (transport::findTransport("ucx")->usable().ok()) {
        systems.push_back({"colla-ucx", "private", "ucx"});
      }
      if (net_ == Net::kVeth && options_.np > 2) {
        systems.push_back({"colla-bucket", "shared", "tcp-plain"});
        systems.push_back({"colla-one-level", "private", "tcp-plain", "direct"});
      }
      return systems;
    }
    for (const std::string& buffers : distinct(options_.buffers)) {
      systems.push_back({buffers == "shared" ? "colla" : "colla-private", buffers, "shm"});
    }
    return systems;
  }

  Status startAll() {
    Stage stage{coordinator_, options_.np, net_};
    if (net_ == Net::kVeth) {
      COLLA_TRY_ASSIGN(Hosts pair, Hosts::pair(coordinator_));
      stage.hosts = &hosts_.emplace(std::move(pair));
    }
    for (const CollectiveSystem& system : collaSystems()) {
      COLLA_TRY(start(collaSystem(stage, system)));
      systems_.push_back(system);
    }
    for (const std::string& peer : common_.peers) {
      COLLA_TRY_ASSIGN(const bool runs, startPeer(peer, [&] { return peerSystem(stage, peer); }));
      const bool shm = peer != "gloo" && net_ == Net::kShm;
      if (runs) systems_.push_back({peer, "private", shm ? "shm" : "tcp-plain"});
    }
    if (net_ != Net::kShm) return {};
    COLLA_TRY_ASSIGN(bareMemory_, BareMemory::create(options_.np, largest_));
    COLLA_TRY(start(forkedSystem(stage, "bare", [this](const AgentPlace& place) {
      return serveAgent(place, *makeBareWorkload(*bareMemory_, place.rank));
    })));
    systems_.push_back({"bare", "shared", "memory"});
    return {};
  }

  SystemSpec collaSystem(const Stage& stage, const CollectiveSystem& system) const {
    const auto serve = [](const AgentPlace& place, bool privateBuffers) -> Status {
      if (place.system == "colla-ucx") COLLA_TRY(showOwnDevices());
      COLLA_TRY_ASSIGN(const auto job, Job::init());
      return serveAgent(place, *makeCollaWorkload(*job, privateBuffers));
    };
    return collaJob(stage, system.name, system.transport, [&](int rank, ProcessSpec& process) {
      const AgentPlace place{coordinator_.socketPath(), system.name, rank, options_.np};
      if (system.algorithm != "auto") process.environment["COLLA_ALGORITHM"] = system.algorithm;
      process.body = [serve, place, privateBuffers = system.buffers == "private"] {
        return exitCode(serve(place, privateBuffers));
      };
    });
  }

  Result<SystemSpec> peerSystem(const Stage& stage, const std::string& peer) {
    if (peer != "gloo") return mpiSystem(stage, peer, peer);
    COLLA_TRY_ASSIGN(const std::string python, peerPython(coordinator_, "torch", false, {}));
    return scriptSystem(stage, peer, python, "gloo_agent.py");
  }

  Status measurePoint(const Point& point, Records& records) {
    std::vector<const CollectiveSystem*> able;
    std::vector<std::unique_ptr<Contender>> contenders;
    for (const CollectiveSystem& system : systems_) {
      if (!system.can(point.operation)) continue;
      able.push_back(&system);
      contenders.push_back(std::make_unique<AgentContender>(
          coordinator_, system.name,
          AgentContender::Options{
              .prepare = fmt::format("{} {}", toString(point.operation), point.elements),
              .verifyAgain = true}));
    }
    std::string title(toString(point.operation));
    const auto bytes = static_cast<double>(point.bytes());
    if (bytes > 0) title += " " + bytesText(bytes);
    RunnerOptions how = runnerOptions(title);
    how.pointLimit = std::chrono::seconds(30);
    COLLA_TRY_ASSIGN(const auto outcomes, measure(contenders, how));
    for (std::size_t i = 0; i < able.size(); ++i) {
      const double seconds = outcomes[i].seconds;
      Record& record = records.emplace_back(Record{{"system", able[i]->name},
                                                   {"op", toString(point.operation)},
                                                   {"np", options_.np},
                                                   {"bytes", point.bytes()},
                                                   {"seconds", seconds},
                                                   {"gb_per_s", bytes / seconds / 1e9},
                                                   {"buffers", able[i]->buffers},
                                                   {"transport", able[i]->transport}});
      addRun(record, outcomes[i], "iterations");
    }
    return {};
  }

  // Every system holds its buffers, one for input and one for output, all at the same time.
  Status checkRoom() const {
    const std::size_t bare = net_ == Net::kShm ? 1 : 0;
    const std::size_t systems = collaSystems().size() + common_.peers.size() + bare;
    return checkMemory(2 * largest_ * options_.np * systems,
                       fmt::format("{} systems of {} ranks with buffers of {} need", systems,
                                   options_.np, bytesText(static_cast<double>(largest_))),
                       "smaller --bytes or fewer --peers");
  }

  const CollectivesOptions& options_;
  const Net net_;
  const std::vector<Point> points_;
  const std::size_t largest_;
  std::optional<Hosts> hosts_;
  std::shared_ptr<BareMemory> bareMemory_;
  std::vector<CollectiveSystem> systems_;
};

}  // namespace

void addCollectives(CLI::App& bench, Action& action) {
  CLI::App* const app = bench.add_subcommand(
      "collectives",
      "Measures Colla's collectives and those of other systems side by side, interleaved in one "
      "run on this machine");
  app->footer(
      "The table's last columns say how many times as fast as a line's system Colla is.\n\n"
      "Examples:\n"
      "  colla bench collectives\n"
      "  colla bench collectives --np 4 --bytes 32M --ops allreduce,allgather --json out.json\n"
      "  colla bench collectives --net veth --bytes 32M\n");
  const auto options = std::make_shared<CollectivesOptions>();
  app->add_option("--np", options->np, "Ranks")->check(CLI::Range(2, 128))->capture_default_str();
  app->add_option("--ops", options->operations,
                  "Operations: allreduce, broadcast, reduce, reduce_scatter, allgather, alltoall, "
                  "barrier")
      ->option_text("NAME")
      ->delimiter(',')
      ->check(accepted(parseOperation))
      ->default_str("allreduce");
  app->add_option("--bytes", options->bytes,
                  "Sizes of the whole buffer (float32), as 1000, 64K, 4M")
      ->option_text("SIZE")
      ->delimiter(',')
      ->check(accepted(parseBytes))
      ->default_str("1K,64K,4M,32M,100M");
  addPeers(*app, options->common,
           "Systems to compare with: gloo, openmpi, mpich, or none. Those that are named must be "
           "installed");
  app->add_option("--buffers", options->buffers,
                  "Colla's buffers: shared (a Bucket), private (any memory of the user's)")
      ->delimiter(',')
      ->check(CLI::IsMember({"shared", "private"}))
      ->default_str("shared,private");
  app->add_option("--net", options->net,
                  "What joins the ranks: shm (memory of this host), loop (TCP on the loopback "
                  "interface), veth (TCP between two network namespaces; needs root)")
      ->option_text("NAME")
      ->check(accepted(parseNet))
      ->capture_default_str();
  addRunFlags(*app, options->common);
  app->callback([options, &action] {
    action = [options] {
      return runBenchmark(options->common.jsonFile, [&](Coordinator& coordinator) {
        return CollectivesBench(*options, coordinator).run();
      });
    };
  });
}

}  // namespace colla::bench
