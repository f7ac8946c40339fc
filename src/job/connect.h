// From a place in a job to transports that reach its other processes.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/config.h"
#include "base/deadline.h"
#include "colla/status.h"
#include "job/environment.h"
#include "job/open_store.h"
#include "rendezvous/membership.h"
#include "transport/options.h"
#include "transport/transport.h"
#include "transport/transports.h"

namespace colla::job {

// The transports of a job, by their rows in the table; every process of it chooses the same.
struct TransportChoice {
  const transport::TransportRow* host;  // Inside a host; null: `wire` is used there as well.
  const transport::TransportRow* wire;  // Between hosts; null: the job is on one host.
};

// By the setting `transport`. Inside a host "auto" is shared memory, between hosts it is encrypted,
// unless connect() finds that all hosts have a faster network (TransportRow::preferred). A named
// transport carries everything in a job on one host, and what goes between the hosts in a job on
// several. kInvalidArgument for one that does not reach so far or that this machine can't use.
Result<TransportChoice> chooseTransports(const Config& config, const Place& place);

// How long a wait spins before it sleeps, by the setting `spin_us` or the cores at hand.
transport::Spin spinOf(const Config& config, const Place& place);

// What carries messages between the hosts of these members: the first of `preferred` that all of
// them prefer, otherwise `wire`.
const transport::TransportRow* agreedWire(const transport::TransportRow* wire,
                                          std::span<const transport::TransportRow* const> preferred,
                                          const rendezvous::Membership& membership);

struct Connection {
  OpenStore meeting;
  rendezvous::Membership membership;
  // Processes of one host share memory, here and on the other hosts.
  bool sharesMemory = false;
  // To the processes of this host, by the numbers of the membership; null where there are no
  // others, or where `wire` is used among them as well.
  std::unique_ptr<transport::Transport> host;
  // To all processes of the job; null where all of them are on this host and `host` is used.
  std::unique_ptr<transport::Transport> wire;

  // The one that reaches all processes. Null for a job of one process.
  transport::Transport* everywhere() const { return wire != nullptr ? wire.get() : host.get(); }
};

// Opens this process's doors, tells the others through the store where they are, waits until all
// of them have, and takes its place. `secret` may be empty where chooseTransports() allows it.
// `server` is the store that this process serves already, if any.
Result<Connection> connect(const Config& config, const Place& place, const TransportChoice& choice,
                           const std::string& secret, const transport::Identity& identity,
                           std::unique_ptr<rendezvous::StoreServer> server, Deadline deadline);

}  // namespace colla::job
