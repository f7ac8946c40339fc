// The table of transports: for each one what it is called, what it can do, and the way into it.
//
// The setting `transport`, its help, docs/use.md and `colla version` take their lists from here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colla/status.h"
#include "transport/net/listener.h"
#include "transport/options.h"
#include "transport/transport.h"

namespace colla::transport {

// How far apart the peers may be: each reach includes those before it.
enum class Reach : std::uint8_t {
  kThreads,  // Threads of one process.
  kHost,     // Processes of one host.
  kHosts,    // Processes on any hosts.
};

struct TransportRow {
  std::string_view name;  // Also Transport::name().
  std::string_view help;  // A few words, such as "TCP with TLS 1.3".
  Reach reach;
  bool encrypted;     // Nobody on the way can read the bytes.
  bool sharedMemory;  // Transport::sharedMemory() is not null.

  // Whether this machine can use it, or what it lacks; null: every machine can.
  Status (*usable)();
  // "auto" takes it instead of the first one of its reach where all hosts have what it is for, and
  // connects it with that one's listener; null: never.
  bool (*preferred)();
  std::string_view preferredWith = {};  // What such hosts have, for --help.

  // A process listens first, so that it can tell the others its address, and connects once it
  // knows theirs. Only transports that reach hosts read `address` ("10.0.0.1:0" picks a port).
  // Both are null for kThreads: threads meet in a Hub (inproc/transport.h).
  Result<std::unique_ptr<net::Listener>> (*listen)(const std::string& address,
                                                   const Options& options);
  Result<std::unique_ptr<Transport>> (*connect)(const Options& options,
                                                std::unique_ptr<net::Listener> listener);

  // To choose it is to say that the network between hosts is trusted as it is.
  bool trustsNetwork() const { return reach == Reach::kHosts && !encrypted; }
  // A job of processes can use it.
  bool betweenProcesses() const { return reach != Reach::kThreads; }
};

// All there are. Among those of one reach the first is the one that "auto" means, unless all hosts
// prefer a different one.
std::span<const TransportRow> transports();

// Null if there is none of that name.
const TransportRow* findTransport(std::string_view name);
// The transport that "auto" means for processes of one host (kHost) or of several (kHosts).
const TransportRow& automaticTransport(Reach reach);
// Those between hosts that this machine prefers to that one, best first.
std::vector<const TransportRow*> preferredTransports();

// The names of those that trust the network, as a sentence has them: "tcp-plain or ucx".
std::string trustingTransports();

// What the setting `transport` takes: "auto" and the names of those between processes.
std::string transportChoices();
// The same in words, for `--help`.
std::string transportHelp();

}  // namespace colla::transport
