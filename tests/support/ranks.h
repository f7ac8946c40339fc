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
// the message algorithms, without sockets.
enum class Wire { kShared, kMessages, kShm, kTcpPlain, kTcp };
std::string toString(Wire wire);

// One transport per rank, all connected.
std::vector<std::unique_ptr<transport::Transport>> makeTransports(Wire wire, int count);

// Runs body(rank's group) in `count` threads and waits for all of them.
void runRanks(Wire wire, int count, const std::function<void(Group&)>& body,
              std::chrono::milliseconds timeout = std::chrono::seconds(20));

}  // namespace colla::test
