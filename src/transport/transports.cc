#include "transport/transports.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "transport/shm/transport.h"
#include "transport/tcp/transport.h"
#include "transport/ucx/transport.h"

namespace colla::transport {
namespace {

using tcp::Security;

Result<std::unique_ptr<net::Listener>> listenShm(const std::string&, const Options& options) {
  return shm::listen(options);
}

template <Security security>
Result<std::unique_ptr<net::Listener>> listenTcp(const std::string& address,
                                                 const Options& options) {
  return tcp::listen(address, options, security);
}

template <Security security>
Result<std::unique_ptr<Transport>> connectTcp(const Options& options,
                                              std::unique_ptr<net::Listener> listener) {
  return tcp::connect(options, std::move(listener), security);
}

constexpr std::array kTransports = {
    TransportRow{.name = "inproc",
                 .help = "memory of one process",
                 .reach = Reach::kThreads,
                 .encrypted = false,
                 .sharedMemory = true,
                 .usable = nullptr,
                 .preferred = nullptr,
                 .listen = nullptr,
                 .connect = nullptr},
    TransportRow{.name = "shm",
                 .help = "shared memory",
                 .reach = Reach::kHost,
                 .encrypted = false,
                 .sharedMemory = true,
                 .usable = nullptr,
                 .preferred = nullptr,
                 .listen = listenShm,
                 .connect = shm::connect},
    TransportRow{.name = "tcp",
                 .help = "TCP with TLS 1.3",
                 .reach = Reach::kHosts,
                 .encrypted = true,
                 .sharedMemory = false,
                 .usable = nullptr,
                 .preferred = nullptr,
                 .listen = listenTcp<Security::kTls>,
                 .connect = connectTcp<Security::kTls>},
    TransportRow{.name = "tcp-plain",
                 .help = "TCP without encryption",
                 .reach = Reach::kHosts,
                 .encrypted = false,
                 .sharedMemory = false,
                 .usable = nullptr,
                 .preferred = nullptr,
                 .listen = listenTcp<Security::kPlain>,
                 .connect = connectTcp<Security::kPlain>},
    TransportRow{.name = "ucx",
                 .help = "UCX, for RDMA, without encryption",
                 .reach = Reach::kHosts,
                 .encrypted = false,
                 .sharedMemory = false,
                 .usable = ucx::usable,
                 .preferred = ucx::preferred,
                 .preferredWith = "RDMA",
                 .listen = ucx::listen,
                 .connect = ucx::connect},
};

}  // namespace

std::span<const TransportRow> transports() { return kTransports; }

const TransportRow* findTransport(std::string_view name) {
  const auto row = std::ranges::find(kTransports, name, &TransportRow::name);
  return row == kTransports.end() ? nullptr : &*row;
}

const TransportRow& automaticTransport(Reach reach) {
  const auto row = std::ranges::find(kTransports, reach, &TransportRow::reach);
  COLLA_CHECK(row != kTransports.end());
  return *row;
}

std::vector<const TransportRow*> preferredTransports() {
  std::vector<const TransportRow*> rows;
  for (const TransportRow& row : kTransports) {
    if (row.reach == Reach::kHosts && row.preferred != nullptr && row.preferred()) {
      rows.push_back(&row);
    }
  }
  return rows;
}

std::string transportChoices() {
  std::string choices = "auto";
  for (const TransportRow& row : kTransports) {
    if (row.betweenProcesses()) choices += fmt::format(" {}", row.name);
  }
  return choices;
}

std::string trustingTransports() {
  std::vector<std::string_view> names;
  for (const TransportRow& row : kTransports) {
    if (row.trustsNetwork()) names.push_back(row.name);
  }
  return fmt::format("{}", fmt::join(names, " or "));
}

std::string transportHelp() {
  std::string between;
  for (const TransportRow& row : kTransports) {
    if (row.preferred == nullptr) continue;
    between += fmt::format("{} where all have {}, otherwise ", row.name, row.preferredWith);
  }
  std::string help = fmt::format("auto ({} inside a host; between hosts {}{})",
                                 automaticTransport(Reach::kHost).name, between,
                                 automaticTransport(Reach::kHosts).name);
  for (const TransportRow& row : kTransports) {
    if (row.betweenProcesses()) help += fmt::format(", {} ({})", row.name, row.help);
  }
  return help;
}

}  // namespace colla::transport
