#include "bench/hybrid_network.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "bench/network.h"

namespace colla::bench {
namespace {

constexpr auto kLink = "eth0";
constexpr auto kBridge = "br0";

// As a shell looks for it.
bool isInstalled(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    if (access(fmt::format("{}/{}", directory, program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

Status checkMachine() {
  if (geteuid() != 0) {
    return {StatusCode::kUnsupported,
            "bench hybrid makes network namespaces with limited links and needs root"};
  }
  for (const char* program : {"ip", "tc"}) {
    if (isInstalled(program)) continue;
    return {StatusCode::kUnsupported,
            fmt::format("bench hybrid limits links with {}, which is not installed: apt-get "
                        "install iproute2",
                        program)};
  }
  return {};
}

// The bucket holds 2 ms: short beside a step, and several of the kernel's largest packets.
std::vector<std::string> limitOf(const std::string& device, double gigabits) {
  const double bitsPerSecond = std::round(gigabits * 1e9);
  const double burst = std::max(bitsPerSecond / 8 * 2e-3, 256.0 * 1024);
  return {"tc",
          "qdisc",
          "add",
          "dev",
          device,
          "root",
          "tbf",
          "rate",
          fmt::format("{:.0f}bit", bitsPerSecond),
          "burst",
          fmt::format("{:.0f}", burst),
          "latency",
          "50ms"};
}

}  // namespace

std::string LimitedHosts::address(int host) { return fmt::format("10.78.0.{}", host + 1); }

Result<LimitedHosts> LimitedHosts::create(Coordinator& coordinator, int hosts, double gigabits) {
  COLLA_TRY(checkMachine());
  LimitedHosts made;  // The switch is the last of its namespaces.
  for (int number = 0; number <= hosts; ++number) {
    COLLA_TRY_ASSIGN(UniqueFd one, makeNamespace());
    made.hosts_.push_back(std::move(one));
  }
  const UniqueFd& bridge = made.hosts_.back();
  const auto run = [&](const UniqueFd& where, std::vector<std::string> words) {
    return configure(coordinator, where.get(), std::move(words));
  };
  COLLA_TRY(run(bridge, {"ip", "link", "add", kBridge, "type", "bridge"}));
  COLLA_TRY(run(bridge, {"ip", "link", "set", kBridge, "up"}));
  for (int number = 0; number < hosts; ++number) {
    const UniqueFd& host = made.hosts_[static_cast<std::size_t>(number)];
    const std::string port = fmt::format("port{}", number);
    COLLA_TRY(run(host, {"ip", "link", "add", kLink, "type", "veth", "peer", "name", port, "netns",
                         pathOf(bridge)}));
    COLLA_TRY(run(host, {"ip", "address", "add", address(number) + "/24", "dev", kLink}));
    COLLA_TRY(run(host, {"ip", "link", "set", "lo", "up"}));
    COLLA_TRY(run(host, {"ip", "link", "set", kLink, "up"}));
    COLLA_TRY(run(bridge, {"ip", "link", "set", port, "master", kBridge, "up"}));
    // A filter limits what a device sends: the host's end one direction, the switch's the other.
    COLLA_TRY(run(host, limitOf(kLink, gigabits)));
    COLLA_TRY(run(bridge, limitOf(port, gigabits)));
  }
  return made;
}

Result<LinkBytes> LimitedHosts::linkBytes(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/net/dev", process));
  std::stringstream text;
  text << file.rdbuf();
  return parseLinkBytes(text.str(), kLink);
}

Result<LinkBytes> parseLinkBytes(const std::string& text, const std::string& device) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(' ');
    if (line.substr(begin, colon - begin) != device) continue;
    // Received: bytes and seven other numbers; then the same of what was sent.
    std::istringstream numbers(line.substr(colon + 1));
    LinkBytes bytes;
    numbers >> bytes.received;
    std::uint64_t other = 0;
    for (int i = 0; i < 7; ++i) numbers >> other;
    numbers >> bytes.sent;
    if (numbers) return bytes;
  }
  return {StatusCode::kNotFound, fmt::format("no counters of {}", device)};
}

}  // namespace colla::bench
