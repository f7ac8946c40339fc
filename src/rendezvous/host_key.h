// Which processes are on one host, in the sense that they can share memory.
#pragma once

#include <string>

namespace colla::rendezvous {

// Equal for two processes if and only if they can reach each other by abstract Unix sockets and
// trust each other there: one boot of one machine, one network namespace, one user. Two network
// namespaces on one machine are two hosts.
std::string hostKey();

}  // namespace colla::rendezvous
