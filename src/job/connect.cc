#include "job/connect.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/metric_families.h"
#include "base/metrics.h"
#include "job/cluster.h"
#include "job/cpu.h"
#include "rendezvous/host_key.h"
#include "transport/net/address.h"
#include "transport/net/keys.h"

namespace colla::job {
namespace {

using namespace std::chrono_literals;
using transport::TransportRow;
using Listener = std::unique_ptr<transport::net::Listener>;

// With a core for everybody, spinning through a peer's delay is cheaper than being woken: workers
// of one step differ by some hundred microseconds. With fewer cores than processes the one that
// spins keeps the other from getting on.
constexpr transport::Spin kSpinWithCores = {.caller = 1000us, .background = 100us};
constexpr transport::Spin kSpinWithout = {.caller = 2us, .background = 2us};

// Where to listen: at the address that the user gave this process or else on the interface that
// leads to the others, unless the user named one.
Result<std::string> listenAddress(const Config& config, const Place& place) {
  if (!place.address.empty()) return place.address;
  const std::string wanted = config.text("interface");
  COLLA_TRY_ASSIGN(std::string host, wanted.empty() ? transport::net::addressTowards(place.store)
                                                    : transport::net::interfaceAddress(wanted));
  const bool six = host.find(':') != std::string::npos;
  return six ? fmt::format("[{}]:0", host) : host + ":0";
}

// The same wherever this process asks, and no other's.
std::uint64_t processNumber() {
  static const std::uint64_t kNumber = [] {
    std::uint64_t number = 0;
    transport::net::fillRandom(std::as_writable_bytes(std::span(&number, 1)));
    return number;
  }();
  return kNumber;
}

// Takes this process's place and waits for the others.
//
// A store that one of the processes serves ends with that one's job. Who is quick to begin the next
// job may find the store of the last one still there, and then meets the others at the one that
// follows it.
Result<rendezvous::Membership> meet(const Place& place, const std::string& secret,
                                    const rendezvous::Member& self, OpenStore& open,
                                    Deadline deadline) {
  const rendezvous::Expected expected{place.size, place.servers};
  rendezvous::JoinReportOptions report;
  report.everybody = place.launcher == kLists;  // Somebody may sit in front of each.
  report.advice = report.everybody
                      ? "start each with its own --job_name and --task_index, and the same lists"
                      : "was each started, and does its program join the job?";
  while (true) {
    const auto epoch = rendezvous::takePlace(*open.store, place.epoch, self, expected, deadline);
    const bool first = epoch.ok() && *epoch == place.epoch;
    auto met = epoch.ok() ? rendezvous::awaitMembers(
                                *open.store, *epoch, self, expected, deadline,
                                [](const std::string& text) { log::info("{}", text); }, report)
                          : epoch.status();
    const bool lost = met.status().code() == StatusCode::kPeerLost;
    if (!lost || first || place.launcher == "colla") return met;
    metrics::Counter(metrics::family("colla_reconnects_total")).add();
    open.store.reset();
    COLLA_TRY_ASSIGN(open, openStore(place, nullptr, secret, deadline));
  }
}

}  // namespace

transport::Spin spinOf(const Config& config, const Place& place) {
  const auto wanted = config.integer("spin_us");
  if (wanted >= 0) {
    return {.caller = std::chrono::microseconds(wanted),
            .background = std::chrono::microseconds(wanted)};
  }
  return hasCoresForAll(place.localSize, place.ownCpus, usableCpus()) ? kSpinWithCores
                                                                      : kSpinWithout;
}

Result<TransportChoice> chooseTransports(const Config& config, const Place& place) {
  using transport::Reach;
  const TransportRow* const shared = &transport::automaticTransport(Reach::kHost);
  const std::string name = config.text("transport");
  if (name == "auto") {
    const TransportRow* const wire = &transport::automaticTransport(Reach::kHosts);
    return TransportChoice{.host = shared, .wire = place.oneHost() ? nullptr : wire};
  }
  const TransportRow* const named = transport::findTransport(name);
  COLLA_CHECK(named != nullptr);  // The setting takes no other names.
  if (named->usable != nullptr) COLLA_TRY(named->usable());
  if (named->reach == Reach::kHosts) {
    return TransportChoice{.host = place.oneHost() ? nullptr : shared, .wire = named};
  }
  if (place.oneHost()) return TransportChoice{.host = named, .wire = nullptr};
  return {StatusCode::kInvalidArgument,
          fmt::format("{} is \"{}\", but this job runs on more than one host: use auto or {}",
                      config.origin("transport"), name,
                      transport::automaticTransport(Reach::kHosts).name)};
}

namespace {

// Nobody connects to the last task of the lists, whose port the store has: that answers, as long
// as the process is there, whoever wants to know whether it is.
bool meetsAtItsPort(const Place& place) { return place.launcher == kLists && place.servesStore; }

// The doors of a process, one for each transport.
struct Doors {
  Listener host, wire;
};

Result<Doors> openDoors(const Config& config, const Place& place, const TransportChoice& choice,
                        const transport::Options& options) {
  Doors doors;
  if (choice.host != nullptr) {
    COLLA_TRY_ASSIGN(doors.host, choice.host->listen("", options));
  }
  if (choice.wire != nullptr && !meetsAtItsPort(place)) {
    COLLA_TRY_ASSIGN(const std::string address, listenAddress(config, place));
    auto opened = choice.wire->listen(address, options);
    if (!opened.ok() && !place.address.empty()) return addressTaken(place, opened.status());
    COLLA_TRY(opened.status());
    doors.wire = *std::move(opened);
  }
  return doors;
}

// The peers as `row` reaches them: all, or those whose host is `hostKey`.
Result<std::vector<transport::Peer>> peersBy(const TransportRow& row,
                                             const rendezvous::Membership& membership,
                                             const std::string& hostKey) {
  std::vector<transport::Peer> peers;
  for (const rendezvous::Member& member : membership.members) {
    const bool reached = row.reach == transport::Reach::kHosts || member.hostKey == hostKey;
    const auto address = member.addresses.find(std::string(row.name));
    if (reached && address == member.addresses.end()) {
      return {StatusCode::kRefused,
              fmt::format("{} has no address for {}: it chose a different transport", member.name(),
                          row.name)};
    }
    peers.push_back({member.name(), reached ? address->second : "", member.host});
  }
  return peers;
}

}  // namespace

const TransportRow* agreedWire(const TransportRow* wire,
                               std::span<const TransportRow* const> preferred,
                               const rendezvous::Membership& membership) {
  const auto agreed = std::ranges::find_if(preferred, [&](const TransportRow* row) {
    return std::ranges::all_of(membership.members, [&](const rendezvous::Member& member) {
      return member.addresses.contains(std::string(row->name));
    });
  });
  return agreed == preferred.end() ? wire : *agreed;
}

Result<Connection> connect(const Config& config, const Place& place, const TransportChoice& choice,
                           const std::string& secret, const transport::Identity& identity,
                           std::unique_ptr<rendezvous::StoreServer> server, Deadline deadline) {
  Connection connection;
  COLLA_TRY_ASSIGN(connection.meeting, openStore(place, std::move(server), secret, deadline));
  transport::Options options;
  options.self = place.index();
  options.jobId = place.jobId;
  options.secret = secret;
  options.identity = identity;
  options.spin = spinOf(config, place);
  options.connections = static_cast<int>(config.integer("tcp_connections"));

  rendezvous::Member self{.role = place.role,
                          .rank = place.rank,
                          .host = place.host,
                          .hostKey = rendezvous::hostKey(),
                          .pid = getpid(),
                          .addresses = {},
                          .process = processNumber()};
  COLLA_TRY_ASSIGN(Doors doors, openDoors(config, place, choice, options));
  if (doors.host != nullptr) self.addresses.emplace(choice.host->name, doors.host->address());
  const bool named = config.text("transport") != "auto";
  std::vector<const TransportRow*> preferred;
  if (choice.wire != nullptr) {
    const std::string address = doors.wire != nullptr ? doors.wire->address() : place.store;
    self.addresses.emplace(choice.wire->name, address);
    if (!named) preferred = transport::preferredTransports();
    for (const TransportRow* row : preferred) self.addresses.emplace(row->name, address);
  }

  COLLA_TRY_ASSIGN(connection.membership, meet(place, secret, self, connection.meeting, deadline));
  const auto& members = connection.membership.members;
  options.epoch = connection.membership.epoch;
  const auto here = [&](const rendezvous::Member& member) {
    return member.hostKey == self.hostKey;
  };
  const auto away = std::ranges::find_if_not(members, here);
  const bool spansHosts = away != members.end();
  if (spansHosts && choice.wire == nullptr) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} can't share memory with {}: they are on different hosts, in "
                        "different network namespaces or of different users; set "
                        "COLLA_TRANSPORT=tcp and COLLA_SECRET_FILE",
                        away->name(), self.name())};
  }
  // Processes whose launcher spoke of several hosts may be on one all the same: then a named
  // transport carries everything, as it does in every job on one host.
  const bool onWire = choice.wire != nullptr && (spansHosts || named);
  connection.sharesMemory = choice.host != nullptr && (spansHosts || !onWire);
  const bool neighbours = std::ranges::count_if(members, here) > 1;
  if (connection.sharesMemory && (neighbours || !onWire)) {
    COLLA_TRY_ASSIGN(options.peers, peersBy(*choice.host, connection.membership, self.hostKey));
    COLLA_TRY_ASSIGN(connection.host, choice.host->connect(options, std::move(doors.host)));
  }
  if (onWire) {
    const TransportRow* const wire = agreedWire(choice.wire, preferred, connection.membership);
    options.rdmaAlone = wire != choice.wire;
    if (options.rdmaAlone && place.index() == 0) {
      log::info(
          "all hosts have RDMA: messages between them go by {}, which does not encrypt; "
          "--transport {} does",
          wire->name, choice.wire->name);
    }
    COLLA_TRY_ASSIGN(options.peers, peersBy(*wire, connection.membership, self.hostKey));
    COLLA_TRY_ASSIGN(connection.wire, wire->connect(options, std::move(doors.wire)));
  }
  return connection;
}

}  // namespace colla::job
