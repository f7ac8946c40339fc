// Ranks as threads of the test, on every transport there is.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "colla/collectives.h"
#include "colla/group.h"
#include "transport/transport.h"

namespace colla::test {

// The ways in which a group can be connected. kMessages is inproc with its shared memory hidden:
// the message algorithms, without sockets. kLevels has two ranks on each host, who share memory,
// and kScattered has neighbours on different hosts; between hosts both have messages.
enum class Wire { kShared, kMessages, kShm, kTcpPlain, kTcp, kUcx, kLevels, kScattered };
std::string toString(Wire wire);

// One transport per rank, all connected. Not for those with several hosts. kMessages calls `sent`
// for every message, by any thread.
using Sent = std::function<void(int from, int to, std::size_t bytes)>;
std::vector<std::unique_ptr<transport::Transport>> makeTransports(Wire wire, int count,
                                                                  const Sent& sent = nullptr);

// Runs body(rank's group) in `count` threads and waits for all of them.
void runRanks(Wire wire, int count, const std::function<void(Group&)>& body,
              std::chrono::milliseconds timeout = std::chrono::seconds(20));

// The same for ranks on several hosts: rank r is on host hosts[r]. Ranks of one host share memory
// by `inside`, and all reach each other by `between`.
struct HostWires {
  Wire inside = Wire::kShared;
  Wire between = Wire::kMessages;
  // Called for every message between hosts, by any thread; kMessages only.
  Sent sent = nullptr;
};
void runOnHosts(const std::vector<int>& hosts, const HostWires& wires,
                const std::function<void(Group&)>& body,
                std::chrono::milliseconds timeout = std::chrono::seconds(20));

}  // namespace colla::test
