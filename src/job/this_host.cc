#include "job/this_host.h"

#include <algorithm>
#include <cctype>

#include "job/environment.h"
#include "transport/net/address.h"

namespace colla::job {
namespace {

namespace net = transport::net;

std::string inSmallLetters(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Any port: only the host counts.
Result<net::Address> lookUp(const std::string& host) {
  return net::Address::parse(net::withPort(host, 1));
}

bool isOurs(const std::string& host) {
  if (isLoopback(host)) return true;
  if (inSmallLetters(host) == inSmallLetters(hostName())) return true;
  const auto address = lookUp(host);
  // What no name server knows is somebody else's: ours we would know.
  return address.ok() && (address->isLocal() || net::interfaceAddress(address->host()).ok());
}

Result<std::string> addressOf(const std::string& host, const std::string& other) {
  const auto address = lookUp(host);
  if (address.ok() && !address->isLocal()) return address->host();
  return net::addressTowards(other);
}

}  // namespace

ThisHost ThisHost::real() { return {.is = isOurs, .address = addressOf}; }

bool isLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace colla::job
