// From a place in a job to a transport that reaches its other processes.
#pragma once

#include <memory>
#include <string>

#include "base/config.h"
#include "base/deadline.h"
#include "colla/status.h"
#include "job/environment.h"
#include "job/open_store.h"
#include "rendezvous/membership.h"
#include "transport/net/listener.h"
#include "transport/options.h"
#include "transport/transport.h"

namespace colla::job {

// How the processes of a job reach each other; every process of it chooses the same.
enum class Wire { kShm, kTcp, kTcpPlain };

// By the setting `transport`; "auto" is shm on one host and tcp between hosts. kInvalidArgument
// for shm between hosts.
Result<Wire> chooseWire(const Config& config, const Place& place);

// How long a wait spins before it sleeps, by the setting `spin_us` or the cores at hand.
transport::Spin spinOf(const Config& config, const Place& place);

struct Connection {
  OpenStore meeting;
  rendezvous::Membership membership;
  std::unique_ptr<transport::Transport> transport;
};

// Opens this process's door, tells the others through the store where it is, waits until all of
// them have, and takes its place. `secret` may be empty where chooseWire() allows it. `server` is
// the store that this process serves already, if any.
Result<Connection> connect(const Config& config, const Place& place, Wire wire,
                           const std::string& secret, const transport::Identity& identity,
                           std::unique_ptr<rendezvous::StoreServer> server, Deadline deadline);

}  // namespace colla::job
