#include "transport/net/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>

#include "base/unique_fd.h"

namespace colla::transport::net {
namespace {

constexpr std::string_view kUnixPrefix = "unix:@";

Status malformed(std::string_view text) {
  return {StatusCode::kInvalidArgument,
          fmt::format("\"{}\" is not an address; write host:port, [v6]:port or unix:@name", text)};
}

template <typename T>
const T& as(const sockaddr_storage& storage) {
  return reinterpret_cast<const T&>(storage);
}

std::string numericHost(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST];
  const int error = getnameinfo(address, size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? std::string(host) : std::string();
}

struct Interfaces {
  Interfaces() {
    if (getifaddrs(&head) != 0) head = nullptr;
  }
  ~Interfaces() {
    if (head != nullptr) freeifaddrs(head);
  }
  Interfaces(const Interfaces&) = delete;
  Interfaces& operator=(const Interfaces&) = delete;
  ifaddrs* head = nullptr;
};

// Empty for what cannot be listened on without more knowledge: link-local IPv6 needs a scope.
std::string usableHost(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return {};
  if (entry.ifa_addr->sa_family == AF_INET) {
    return numericHost(entry.ifa_addr, sizeof(sockaddr_in));
  }
  if (entry.ifa_addr->sa_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
    if (IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) return {};
    return numericHost(entry.ifa_addr, sizeof(sockaddr_in6));
  }
  return {};
}

bool isLoopbackNetwork(std::string_view host) { return host.starts_with("127."); }

}  // namespace

Result<Address> Address::parse(std::string_view text) {
  Address address;
  if (text.starts_with(kUnixPrefix)) {
    const std::string_view name = text.substr(kUnixPrefix.size());
    sockaddr_un un{};
    un.sun_family = AF_UNIX;
    if (name.empty() || name.size() > sizeof(un.sun_path) - 1) return malformed(text);
    std::memcpy(un.sun_path + 1, name.data(), name.size());  // The leading zero: abstract.
    std::memcpy(&address.storage_, &un, sizeof(un));
    address.size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return address;
  }

  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return malformed(text);
  std::string host(text.substr(0, colon));
  const std::string port(text.substr(colon + 1));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return malformed(text);
  }
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (host.empty() || error != std::errc() || end != port.data() + port.size() || number > 65535) {
    return malformed(text);
  }

  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int code = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); code != 0) {
    return {StatusCode::kNotFound,
            fmt::format("no address for host \"{}\": {}", host, gai_strerror(code))};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::memcpy(&address.storage_, found->ai_addr, found->ai_addrlen);
  address.size_ = found->ai_addrlen;
  return address;
}

Address Address::fromSystem(const sockaddr_storage& storage, socklen_t size) {
  Address address;
  address.storage_ = storage;
  address.size_ = std::min<socklen_t>(size, sizeof(storage));
  return address;
}

Result<Address> Address::ofLocalEnd(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return {StatusCode::kIo, fmt::format("getsockname: {}", std::strerror(errno))};
  }
  return fromSystem(storage, size);
}

Result<Address> Address::ofRemoteEnd(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return {StatusCode::kPeerLost, fmt::format("not connected: {}", std::strerror(errno))};
  }
  return fromSystem(storage, size);
}

bool Address::isLocal() const {
  switch (family()) {
    case AF_UNIX:
      return true;
    case AF_INET:
      return (ntohl(as<sockaddr_in>(storage_).sin_addr.s_addr) >> 24) == 127;
    case AF_INET6:
      return IN6_IS_ADDR_LOOPBACK(&as<sockaddr_in6>(storage_).sin6_addr) != 0;
    default:
      return false;
  }
}

bool Address::isWildcard() const {
  if (family() == AF_INET) return as<sockaddr_in>(storage_).sin_addr.s_addr == htonl(INADDR_ANY);
  if (family() == AF_INET6) {
    return IN6_IS_ADDR_UNSPECIFIED(&as<sockaddr_in6>(storage_).sin6_addr) != 0;
  }
  return false;
}

std::string Address::host() const {
  if (!isUnix()) return numericHost(system(), size_);
  constexpr std::size_t kNameOffset = offsetof(sockaddr_un, sun_path);
  if (size_ <= kNameOffset + 1) return "@";  // The unnamed end of a connection.
  const auto& un = as<sockaddr_un>(storage_);
  return fmt::format("@{}", std::string_view(un.sun_path + 1, size_ - kNameOffset - 1));
}

int Address::port() const {
  if (isUnix()) return -1;
  return ntohs(family() == AF_INET6 ? as<sockaddr_in6>(storage_).sin6_port
                                    : as<sockaddr_in>(storage_).sin_port);
}

std::string Address::text() const {
  return isUnix() ? fmt::format("unix:{}", host()) : withPort(host(), port());
}

std::string withPort(std::string_view host, int port) {
  const bool six = host.find(':') != std::string_view::npos;
  return six ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<std::string> interfaceAddress(const std::string& nameOrAddress) {
  const Interfaces interfaces;
  std::string six;
  bool named = false;
  for (const ifaddrs* entry = interfaces.head; entry != nullptr; entry = entry->ifa_next) {
    const std::string host = usableHost(*entry);
    if (!host.empty() && host == nameOrAddress) return host;
    if (nameOrAddress != entry->ifa_name) continue;
    named = true;
    if (host.empty()) continue;
    if (entry->ifa_addr->sa_family == AF_INET) return host;
    if (six.empty()) six = host;
  }
  if (!six.empty()) return six;
  // Every address of 127.0.0.0/8 is this host's, though only one of them is listed.
  if (in_addr four{};
      isLoopbackNetwork(nameOrAddress) && inet_pton(AF_INET, nameOrAddress.c_str(), &four) == 1) {
    return nameOrAddress;
  }
  return {StatusCode::kInvalidArgument,
          named ? fmt::format("interface {} is down or has no address", nameOrAddress)
                : fmt::format("\"{}\" is neither an interface nor an address of this host; "
                              "`ip -brief address` lists them",
                              nameOrAddress)};
}

Result<std::string> addressTowards(const std::string& destination) {
  COLLA_TRY_ASSIGN(const Address there, Address::parse(destination));
  if (there.isUnix()) return std::string("127.0.0.1");
  // Connecting a datagram socket only chooses the route.
  const UniqueFd fd(socket(there.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || connect(fd.get(), there.system(), there.systemSize()) != 0) {
    return {StatusCode::kIo, fmt::format("no route to {}: {}", destination, std::strerror(errno))};
  }
  COLLA_TRY_ASSIGN(const Address here, Address::ofLocalEnd(fd.get()));
  return here.host();
}

}  // namespace colla::transport::net
