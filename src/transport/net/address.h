// Where a socket is: "127.0.0.1:4000", "[::1]:4000", "host:4000" or "unix:@name".
//
// Unix names are abstract ("@"): they belong to a network namespace, and nothing is left in any
// file system. Immutable; copy freely.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

#include "colla/status.h"

namespace colla::transport::net {

class Address {
 public:
  // Host names are looked up, which may block; addresses are not.
  static Result<Address> parse(std::string_view text);
  static Address fromSystem(const sockaddr_storage& storage, socklen_t size);
  // This or the other end of a socket.
  static Result<Address> ofLocalEnd(int fd);
  static Result<Address> ofRemoteEnd(int fd);

  bool isUnix() const { return storage_.ss_family == AF_UNIX; }
  // Only this host can reach it.
  bool isLocal() const;
  // 0.0.0.0 or ::, every interface of this host.
  bool isWildcard() const;

  // The whole, in the form that parse() takes.
  std::string text() const;
  // Without the port, brackets or "unix:".
  std::string host() const;
  // 0 for any, and for a Unix socket -1.
  int port() const;

  const sockaddr* system() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t systemSize() const { return size_; }
  int family() const { return storage_.ss_family; }

 private:
  Address() = default;
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

// "10.0.0.1" and 80 give "10.0.0.1:80"; an IPv6 address gets its brackets.
std::string withPort(std::string_view host, int port);

// The address of an interface by name ("eth0"; IPv4 before IPv6), or the address itself once it
// is known to be one of this host's. Without a port.
Result<std::string> interfaceAddress(const std::string& nameOrAddress);

// Which address of this host leads to `destination` ("host:port"): what to listen on so that
// those who reach it can reach us. 127.0.0.1 for a Unix socket. Sends nothing.
Result<std::string> addressTowards(const std::string& destination);

}  // namespace colla::transport::net
