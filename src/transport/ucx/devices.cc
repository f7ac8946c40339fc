#include "transport/ucx/devices.h"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include "transport/net/address.h"

namespace colla::transport::ucx {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> namesIn(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::string interfaceOf(const std::string& host) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const auto size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    sockaddr_storage storage{};
    std::copy_n(reinterpret_cast<const char*>(entry->ifa_addr), size,
                reinterpret_cast<char*>(&storage));
    const auto known = net::Address::fromSystem(storage, static_cast<socklen_t>(size));
    if (known.host() == host) return entry->ifa_name;
  }
  return {};
}

}  // namespace

std::vector<std::string> rdmaDevices() {
  const fs::path all = "/sys/class/infiniband";
  std::vector<std::string> devices;
  for (const std::string& name : namesIn(all)) {
    for (const std::string& port : namesIn(all / name / "ports")) {
      devices.push_back(name + ':' + port);
    }
  }
  return devices;
}

std::string devicesFor(const std::string& address) {
  const auto parsed = net::Address::parse(address);
  std::string devices = parsed.ok() ? interfaceOf(parsed->host()) : "";
  if (devices.empty()) return {};
  for (const std::string& device : rdmaDevices()) devices += ',' + device;
  return devices;
}

}  // namespace colla::transport::ucx
