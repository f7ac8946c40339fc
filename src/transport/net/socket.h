// Non-blocking TCP and Unix stream sockets, closed on exec.
#pragma once

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "colla/status.h"
#include "transport/net/address.h"

namespace colla::transport::net {

// A listening socket. Port 0 picks a free one: see Address::ofLocalEnd(). A wildcard address is
// refused: a listener is bound to the interface in use.
Result<UniqueFd> listenOn(const Address& address);

// The next connection; an invalid descriptor when there is none now. kNoMemory when this process
// or host has no descriptors left.
Result<UniqueFd> acceptOn(int listening);

// Starts to connect; the descriptor turns writable when the outcome is known: finishConnect().
// kPeerLost when nobody listens there, kTimeout when the listener's queue is full just now.
Result<UniqueFd> startConnect(const Address& address);
Status finishConnect(int fd, const Address& address);

// Whether the other end's kernel has yet to take something that was written: closing with bytes
// of the other side unread would throw it away.
bool unacknowledged(int fd);

// Unix sockets: the process at the other end must belong to our user.
Status checkPeerUser(int fd);

// Sleeps until one of `events` (POLLIN, POLLOUT) is there. kTimeout at the deadline.
Status waitFor(int fd, short events, Deadline deadline);

}  // namespace colla::transport::net
