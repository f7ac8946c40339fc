#include "transport/ucx/devices.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
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

std::string firstLine(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// One of the device's files for verbs is there, and not for root alone: a container often sees a
// device in /sys that it may not open.
bool mayOpen(const fs::path& root, const std::string& device) {
  const fs::path verbs = root / "sys/class/infiniband_verbs";
  return std::ranges::any_of(namesIn(verbs), [&](const std::string& name) {
    return firstLine(verbs / name / "ibdev") == device &&
           access((root / "dev/infiniband" / name).c_str(), R_OK | W_OK) == 0;
  });
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

std::vector<std::string> rdmaDevices(const fs::path& root) {
  const fs::path all = root / "sys/class/infiniband";
  std::vector<std::string> devices;
  for (const std::string& name : namesIn(all)) {
    if (!mayOpen(root, name)) continue;
    for (const std::string& port : namesIn(all / name / "ports")) {
      // Such as "4: ACTIVE"; a port without a cable is "1: DOWN".
      const bool active = firstLine(all / name / "ports" / port / "state").ends_with(": ACTIVE");
      if (active) devices.push_back(name + ':' + port);
    }
  }
  return devices;
}

std::string devicesFor(const std::string& address, bool rdmaAlone) {
  const auto parsed = net::Address::parse(address);
  std::string devices = parsed.ok() && !rdmaAlone ? interfaceOf(parsed->host()) : "";
  if (devices.empty() && !rdmaAlone) return {};
  for (const std::string& device : rdmaDevices()) devices += (devices.empty() ? "" : ",") + device;
  return devices;
}

}  // namespace colla::transport::ucx
