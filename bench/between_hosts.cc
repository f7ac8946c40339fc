// `colla bench network`: allreduce between hosts, which are network namespaces.
//
// Four parts, each with hosts and systems of its own:
//   pair    two hosts with one rank each: the wires and the peers, and the bare loop of OpenSSL
//   levels  two hosts with two ranks each, and the bytes that leave a host
//   link    the pair again, on a link of 1 Gbit/s
//   many    eight hosts with eight ranks each: what a host and a rank send, in counts, since the
//   time
//           of 64 processes on a few cores says nothing
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/log.h"
#include "bench/benchmark.h"
#include "bench/collective_agents.h"
#include "bench/machine.h"
#include "bench/mpi.h"
#include "bench/network.h"
#include "bench/operation.h"
#include "bench/sealed_loop.h"
#include "bench/systems.h"
#include "transport/transports.h"

namespace colla::bench {
namespace {

constexpr double kGigabits = 1;
// What the link can carry of a TCP stream: of 1514 bytes that the filter counts for a full packet
// (Ethernet's header and 1500), 52 are headers of IP and TCP (with timestamps) and 14 Ethernet's.
constexpr double kPayloadBits = kGigabits * 1e9 * 1448 / 1514;
constexpr char kLimit[] = "openssl";
constexpr int kManyHosts = 8, kManyRanks = 64;

struct NetworkOptions {
  CommonOptions common{.peers = {"gloo", "openmpi", "mpich"}, .seconds = 0.3};
  std::vector<std::string> parts = {"pair", "levels", "link", "many"};
  std::vector<std::string> bytes = {"1K", "4M", "32M", "100M"};
};

// Also counts what leaves the first host.
class LinkContender final : public AgentContender {
 public:
  LinkContender(Coordinator& coordinator, const std::string& system, const std::string& prepare)
      : AgentContender(coordinator, system, {.prepare = prepare, .verifyAgain = true}),
        process_(coordinator.processes(system).front().pid) {}

  Result<Timing> measure(long iterations) override {
    COLLA_TRY_ASSIGN(const LinkBytes before, linkBytes(process_));
    auto timing = AgentContender::measure(iterations);
    COLLA_TRY_ASSIGN(const LinkBytes after, linkBytes(process_));
    sent_ = static_cast<double>(after.sent - before.sent) / static_cast<double>(iterations);
    return timing;
  }
  // For one iteration, in the last measurement.
  double sent() const { return sent_; }

 private:
  const pid_t process_;
  double sent_ = 0;
};

class NetworkBench : public Bench {
 public:
  NetworkBench(const NetworkOptions& options, Coordinator& coordinator)
      : Bench(options.common, coordinator), options_(options) {
    for (const std::string& bytes : distinct(options.bytes)) sizes_.push_back(*parseBytes(bytes));
  }

  Result<Findings> run() {
    warnIfBusy();
    Records records;
    for (const std::string& part : distinct(options_.parts)) {
      COLLA_TRY(part == "many" ? runMany(records) : runPart(part, records));
    }
    Ratios ratios{
        {"colla-tcp-plain", "colla-tcp", "colla-ucx"},
        [](const Record& record) { return 1 / record["seconds"].get<double>(); },
        [](const Record& record) { return record["part"].dump() + record["bytes"].dump(); }};
    return Findings{
        table(records,
              {textColumn("part", "part"), numberColumn("bytes", "bytes", bytesText),
               textColumn("system", "system"), numberColumn("time", "seconds", durationText),
               numberColumn("GB/s", "gb_per_s", numberText),
               numberColumn("sent/bytes", "sent_per_byte", numberText),
               numberColumn("messages", "messages", numberText),
               numberColumn("of link", "of_link", percentText)},
              ratios),
        std::move(records)};
  }

 private:
  Status runPart(const std::string& part, Records& records) {
    const int np = part == "levels" ? 4 : 2;
    COLLA_TRY(checkMemory(
        2 * std::ranges::max(sizes_) * static_cast<std::size_t>(np) * (4 + common_.peers.size()),
        fmt::format("the systems of part {} need", part), "smaller --bytes or fewer --peers"));
    auto made =
        part == "link" ? Hosts::limited(coordinator_, 2, kGigabits) : Hosts::pair(coordinator_);
    COLLA_TRY(made.status());
    const Hosts hosts = *std::move(made);
    Stage stage{coordinator_, np, Net::kVeth};
    stage.hosts = &hosts;
    std::vector<std::string> systems;
    COLLA_TRY(startSystems(part, stage, systems));
    for (const std::size_t bytes : sizes_) {
      if (part == "link" && bytes < (1 << 20)) continue;  // Its rate is not what bounds those.
      COLLA_TRY(measurePoint(part, stage, systems, bytes, records));
    }
    for (const std::string& system : systems) coordinator_.stop(nameIn(part, system));
    return {};
  }

  // The difference of two runs is that of their iterations alone, without a barrier.
  struct Counts {
    std::vector<double> sent;      // By host, bytes.
    std::vector<double> messages;  // By rank.
    double seconds = 0;
  };
  Result<Counts> count(const std::string& system, long iterations) {
    const auto processes = coordinator_.processes(system);  // The store's, then the ranks'.
    const auto add = [&](Counts& counts, double sign) -> Status {
      for (int host = 0; host < kManyHosts; ++host) {
        const auto first = static_cast<std::size_t>(1 + host * (kManyRanks / kManyHosts));
        COLLA_TRY_ASSIGN(const LinkBytes link, linkBytes(processes[first].pid));
        counts.sent[static_cast<std::size_t>(host)] += sign * static_cast<double>(link.sent);
      }
      COLLA_TRY_ASSIGN(const auto messages, coordinator_.ask(system, "messages", limit()));
      for (std::size_t rank = 0; rank < messages.size(); ++rank) {
        counts.messages[rank] += sign * std::atof(messages[rank].c_str());
      }
      return {};
    };
    Counts counts{std::vector<double>(kManyHosts), std::vector<double>(kManyRanks)};
    COLLA_TRY(add(counts, -1));
    COLLA_TRY_ASSIGN(const auto seconds,
                     coordinator_.ask(system, fmt::format("measure {}", iterations), limit()));
    COLLA_TRY(add(counts, 1));
    for (const std::string& each : seconds) {
      counts.seconds = std::max(counts.seconds, std::atof(each.c_str()));
    }
    return counts;
  }
  static Deadline limit() { return Deadline::after(std::chrono::minutes(5)); }

  Status runMany(Records& records) {
    COLLA_TRY_ASSIGN(const Hosts hosts, Hosts::limited(coordinator_, kManyHosts, 0));
    Stage stage{coordinator_, kManyRanks, Net::kVeth};
    stage.hosts = &hosts;
    stage.hostCount = kManyHosts;
    const std::string system = "colla-tcp-plain", name = nameIn("many", system);
    COLLA_TRY(start(collaSystem(stage, name, "tcp-plain", "auto", /*privateBuffers=*/false)));
    for (const std::size_t bytes : sizes_) {
      const Status room = checkMemory(bytes * kManyRanks * 3 / 2,
                                      fmt::format("{} ranks need", kManyRanks), "smaller --bytes");
      if (!room.ok()) {
        log::warn("many: left out {}: {}", bytesText(static_cast<double>(bytes)), room.message());
        continue;
      }
      const Point point = makePoint(Operation::kAllreduce, bytes, kManyRanks);
      COLLA_TRY(coordinator_
                    .ask(name,
                         fmt::format("prepare {} {}", toString(point.operation), point.elements),
                         limit())
                    .status());
      COLLA_TRY(coordinator_.ask(name, "verify 1", limit()).status());
      COLLA_TRY_ASSIGN(const Counts once, count(name, 1));
      COLLA_TRY_ASSIGN(const Counts thrice, count(name, 3));
      const auto most = [](const std::vector<double>& more, const std::vector<double>& less) {
        double largest = 0;
        for (std::size_t i = 0; i < more.size(); ++i) {
          largest = std::max(largest, (more[i] - less[i]) / 2);
        }
        return largest;
      };
      const auto size = static_cast<double>(point.bytes());
      const double sent = most(thrice.sent, once.sent);
      const double seconds = std::max(0.0, (thrice.seconds - once.seconds) / 2);
      records.push_back({{"part", "many"},
                         {"system", system},
                         {"hosts", kManyHosts},
                         {"np", kManyRanks},
                         {"bytes", point.bytes()},
                         {"seconds", seconds},
                         {"gb_per_s", seconds > 0 ? size / seconds / 1e9 : 0},
                         {"sent_bytes", sent},
                         {"sent_per_byte", sent / size},
                         {"messages", most(thrice.messages, once.messages)}});
    }
    coordinator_.stop(name);
    return {};
  }

  static std::string nameIn(const std::string& part, const std::string& system) {
    return part + "-" + system;
  }

  Status startSystems(const std::string& part, const Stage& stage,
                      std::vector<std::string>& systems) {
    std::vector<std::string> wires = {"tcp-plain", "tcp"};
    if (transport::findTransport("ucx")->usable().ok()) wires.emplace_back("ucx");
    for (const std::string& wire : wires) {
      systems.push_back("colla-" + wire);
      COLLA_TRY(start(collaSystem(stage, nameIn(part, systems.back()), wire)));
    }
    if (part == "levels") {
      systems.emplace_back("colla-one-level");
      COLLA_TRY(start(
          collaSystem(stage, nameIn(part, systems.back()), "tcp-plain", /*algorithm=*/"direct")));
    }
    for (const std::string& peer : common_.peers) {
      COLLA_TRY_ASSIGN(const bool runs, startPeer(peer, [&] {
                         return peerSystem(stage, peer, nameIn(part, peer));
                       }));
      if (runs) systems.push_back(peer);
    }
    if (part != "pair") return {};
    systems.emplace_back(kLimit);
    return start(sealedSystem(stage, nameIn(part, kLimit)));
  }

  SystemSpec collaSystem(const Stage& stage, const std::string& name, const std::string& wire,
                         const std::string& algorithm = "auto", bool privateBuffers = true) const {
    const auto serve = [privateBuffers](const AgentPlace& place) -> Status {
      COLLA_TRY(showOwnDevices());
      COLLA_TRY_ASSIGN(const auto job, Job::init());
      return serveAgent(place, *makeCollaWorkload(*job, privateBuffers));
    };
    return collaJob(stage, name, wire, [&](int rank, ProcessSpec& process) {
      const AgentPlace place{coordinator_.socketPath(), name, rank, stage.np};
      process.environment["COLLA_ALGORITHM"] = algorithm;
      process.body = [serve, place] { return exitCode(serve(place)); };
    });
  }

  SystemSpec sealedSystem(const Stage& stage, const std::string& name) const {
    constexpr int kPort = 29399;
    const std::string address = fmt::format("{}:{}", Hosts::address(0), kPort);
    SystemSpec spec = forkedSystem(stage, name, [address](const AgentPlace& place) {
      return serveAgent(place, *makeSealedLoop(place.rank, address));
    });
    for (int rank = 0; rank < stage.np; ++rank) {
      spec.processes[static_cast<std::size_t>(rank)].networkNamespace =
          stage.networkNamespace(rank);
    }
    return spec;
  }

  Result<SystemSpec> peerSystem(const Stage& stage, const std::string& peer,
                                const std::string& name) {
    if (peer != "gloo") return mpiSystem(stage, peer, name);
    COLLA_TRY_ASSIGN(const std::string python, peerPython(coordinator_, "torch", false, {}));
    return scriptSystem(stage, name, python, "gloo_agent.py");
  }

  Status measurePoint(const std::string& part, const Stage& stage,
                      std::span<const std::string> systems, std::size_t bytes, Records& records) {
    const Point point = makePoint(Operation::kAllreduce, bytes, stage.np);
    std::vector<std::unique_ptr<Contender>> contenders;
    for (const std::string& system : systems) {
      contenders.push_back(std::make_unique<LinkContender>(
          coordinator_, nameIn(part, system),
          fmt::format("{} {}", toString(point.operation), point.elements)));
    }
    const auto size = static_cast<double>(point.bytes());
    RunnerOptions how = runnerOptions(fmt::format("{}: allreduce {}", part, bytesText(size)));
    how.pointLimit = std::chrono::seconds(60);
    COLLA_TRY_ASSIGN(const auto outcomes, measure(contenders, how));
    for (std::size_t i = 0; i < systems.size(); ++i) {
      const double seconds = outcomes[i].seconds;
      const double sent = static_cast<const LinkContender&>(*contenders[i]).sent();
      Record& record = records.emplace_back(Record{{"part", part},
                                                   {"system", systems[i]},
                                                   {"hosts", 2},
                                                   {"np", stage.np},
                                                   {"bytes", point.bytes()},
                                                   {"seconds", seconds},
                                                   {"gb_per_s", size / seconds / 1e9},
                                                   {"sent_bytes", sent},
                                                   {"sent_per_byte", sent / size}});
      // With two ranks, as many bytes go each way as the buffer has.
      if (part == "link") record["of_link"] = size * 8 / (seconds * kPayloadBits);
      addRun(record, outcomes[i], "iterations");
    }
    return {};
  }

  const NetworkOptions& options_;
  std::vector<std::size_t> sizes_;
};

}  // namespace

void addNetwork(CLI::App& bench, Action& action) {
  CLI::App* const app = bench.add_subcommand(
      "network",
      "Measures allreduce between two hosts (network namespaces, joined by a virtual cable; needs "
      "root), side by side with other systems in one run");
  app->footer(
      "Parts: pair (one rank on each host), levels (two on each), link (one on each, 1 Gbit/s),\n"
      "many (eight hosts with eight ranks each, in counts).\n"
      "\"openssl\" is a bare loop that seals, sends and opens as many bytes: the limit of tcp.\n"
      "\"sent/bytes\" is what left the first host, by its interface, for each byte of the "
      "buffer.\n\n"
      "Examples:\n"
      "  colla bench network --json network.json\n"
      "  colla bench network --parts pair --bytes 4M,100M --peers none\n");
  const auto options = std::make_shared<NetworkOptions>();
  app->add_option("--parts", options->parts, "What to measure: pair, levels, link, many")
      ->option_text("NAME")
      ->delimiter(',')
      ->check(CLI::IsMember({"pair", "levels", "link", "many"}))
      ->default_str("pair,levels,link,many");
  app->add_option("--bytes", options->bytes, "Sizes of the buffer (float32), as 1000, 64K, 4M")
      ->option_text("SIZE")
      ->delimiter(',')
      ->check(accepted(parseBytes))
      ->default_str("1K,4M,32M,100M");
  addPeers(*app, options->common,
           "Systems to compare with: gloo, openmpi, mpich, or none. Those that are named must be "
           "installed");
  addRunFlags(*app, options->common);
  app->callback([options, &action] {
    action = [options] {
      return runBenchmark(options->common.jsonFile, [&](Coordinator& coordinator) {
        return NetworkBench(*options, coordinator).run();
      });
    };
  });
}

}  // namespace colla::bench
