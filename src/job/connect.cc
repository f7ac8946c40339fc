#include "job/connect.h"

#include <fmt/format.h>
#include <unistd.h>

#include <span>

#include "base/log.h"
#include "job/cluster.h"
#include "job/cpu.h"
#include "rendezvous/host_key.h"
#include "transport/net/address.h"
#include "transport/net/keys.h"
#include "transport/shm/transport.h"
#include "transport/tcp/transport.h"

namespace colla::job {
namespace {

using namespace std::chrono_literals;
namespace tcp = transport::tcp;

// With a core for everybody, spinning through a peer's delay is cheaper than being woken: workers
// of one step differ by some hundred microseconds. With fewer cores than processes the one that
// spins keeps the other from getting on.
constexpr transport::Spin kSpinWithCores = {.caller = 1000us, .background = 100us};
constexpr transport::Spin kSpinWithout = {.caller = 2us, .background = 2us};

tcp::Security tcpWire(Wire wire) { return wire == Wire::kTcp ? tcp::Security::kTls : tcp::Security::kPlain; }

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

std::string_view key(Wire wire) { return wire == Wire::kShm ? "shm" : "tcp"; }

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
  while (true) {
    const auto epoch = rendezvous::takePlace(*open.store, place.epoch, self, expected, deadline);
    const bool first = epoch.ok() && *epoch == place.epoch;
    auto met = epoch.ok() ? rendezvous::awaitMembers(
                                *open.store, *epoch, self, expected, deadline,
                                [](const std::string& text) { log::info("{}", text); }, report)
                          : epoch.status();
    const bool lost = met.status().code() == StatusCode::kPeerLost;
    if (!lost || first || place.launcher == "colla") return met;
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
  return place.localSize <= usableCpus() ? kSpinWithCores : kSpinWithout;
}

Result<Wire> chooseWire(const Config& config, const Place& place) {
  const std::string name = config.text("transport");
  if (name == "auto") return place.oneHost() ? Wire::kShm : Wire::kTcp;
  if (name == "tcp") return Wire::kTcp;
  if (name == "tcp-plain") return Wire::kTcpPlain;
  if (place.oneHost()) return Wire::kShm;
  return {StatusCode::kInvalidArgument,
          fmt::format("{} is \"shm\", but this job runs on more than one host: use auto or tcp",
                      config.origin("transport"))};
}

Result<Connection> connect(const Config& config, const Place& place, Wire wire,
                           const std::string& secret, const transport::Identity& identity,
                           std::unique_ptr<rendezvous::StoreServer> server, Deadline deadline) {
  Connection connection;
  COLLA_TRY_ASSIGN(connection.meeting, openStore(place, std::move(server), secret, deadline));
  const int index = place.role == Role::kWorker ? place.rank : place.size + place.rank;
  transport::Options options;
  options.self = index;
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
  std::unique_ptr<transport::net::Listener> listener;
  if (wire == Wire::kShm) {
    COLLA_TRY_ASSIGN(listener, transport::shm::listen(options));
  } else {
    COLLA_TRY_ASSIGN(const std::string address, listenAddress(config, place));
    auto opened = tcp::listen(address, options, tcpWire(wire));
    if (!opened.ok() && !place.address.empty()) return addressTaken(place, opened.status());
    COLLA_TRY(opened.status());
    listener = *std::move(opened);
  }
  self.addresses.emplace(key(wire), listener->address());

  COLLA_TRY_ASSIGN(connection.membership, meet(place, secret, self, connection.meeting, deadline));
  options.epoch = connection.membership.epoch;
  for (const rendezvous::Member& member : connection.membership.members) {
    if (wire == Wire::kShm && member.hostKey != self.hostKey) {
      return {StatusCode::kInvalidArgument,
              fmt::format("{} can't share memory with {}: they are on different hosts, in "
                          "different network namespaces or of different users; set "
                          "COLLA_TRANSPORT=tcp and COLLA_SECRET_FILE",
                          member.name(), self.name())};
    }
    const auto address = member.addresses.find(std::string(key(wire)));
    if (address == member.addresses.end()) {
      return {StatusCode::kRefused,
              fmt::format("{} has no address for {}: it chose another transport", member.name(),
                          key(wire))};
    }
    options.peers.push_back({member.name(), address->second});
  }
  if (wire == Wire::kShm) {
    COLLA_TRY_ASSIGN(connection.transport, transport::shm::connect(options, std::move(listener)));
  } else {
    COLLA_TRY_ASSIGN(connection.transport,
                     tcp::connect(options, std::move(listener), tcpWire(wire)));
  }
  return connection;
}

}  // namespace colla::job
