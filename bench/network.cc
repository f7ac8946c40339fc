#include "bench/network.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/check.h"
#include "launch/program.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::string_view, 3> kNets = {"shm", "loop", "veth"};
const std::string kLink(Hosts::kInterface);

UniqueFd openOwnNamespace() { return UniqueFd(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)); }

// This process enters a new namespace and comes back.
Result<UniqueFd> makeNamespace() {
  const UniqueFd home = openOwnNamespace();
  if (!home.valid() || unshare(CLONE_NEWNET) != 0) {
    return {StatusCode::kIo, fmt::format("make a network namespace: {}", std::strerror(errno))};
  }
  UniqueFd made = openOwnNamespace();
  COLLA_CHECK(setns(home.get(), CLONE_NEWNET) == 0);
  if (!made.valid()) {
    return {StatusCode::kIo, fmt::format("open a network namespace: {}", std::strerror(errno))};
  }
  return made;
}

// The namespace as `ip` can name it.
std::string pathOf(const UniqueFd& networkNamespace) {
  return fmt::format("/proc/{}/fd/{}", getpid(), networkNamespace.get());
}

// Runs `ip` or `tc`, whose words are in `line`, inside a namespace.
Status configure(Coordinator& coordinator, const UniqueFd& where, const std::string& line) {
  ProcessSpec spec{.name = line};
  std::istringstream words(line);
  for (std::string word; words >> word;) spec.program.push_back(word);
  spec.networkNamespace = where.get();
  return coordinator.run(spec, Deadline::after(10s));
}

Status setUp(Coordinator& coordinator, const UniqueFd& host, const std::string& address) {
  COLLA_TRY(configure(coordinator, host, fmt::format("ip address add {} dev {}", address, kLink)));
  COLLA_TRY(configure(coordinator, host, fmt::format("ip link set {} up", kLink)));
  return configure(coordinator, host, "ip link set lo up");
}

// UCX takes no device that does not run, and a new one is not said to for about a second.
Status awaitLink(const UniqueFd& host) {
  const UniqueFd home = openOwnNamespace();
  COLLA_CHECK(home.valid() && setns(host.get(), CLONE_NEWNET) == 0);
  const UniqueFd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::copy(kLink.begin(), kLink.end(), request.ifr_name);
  const Deadline deadline = Deadline::after(10s);
  bool running = false;
  while (!running && !deadline.expired()) {
    if (ioctl(any.get(), SIOCGIFFLAGS, &request) != 0) break;
    running = (request.ifr_flags & IFF_RUNNING) != 0;
    if (!running) std::this_thread::sleep_for(10ms);
  }
  COLLA_CHECK(setns(home.get(), CLONE_NEWNET) == 0);
  return running ? Status() : Status(StatusCode::kIo, "a virtual network device does not run");
}

Status checkTools() {
  if (geteuid() != 0) {
    return {StatusCode::kUnsupported, "network namespaces with limited links need root"};
  }
  const char* const path = std::getenv("PATH");
  for (const char* program : {"ip", "tc"}) {
    if (launch::findProgram(program, path == nullptr ? "" : path).ok()) continue;
    return {
        StatusCode::kUnsupported,
        fmt::format("links are limited with {}, which is not installed: apt-get install iproute2",
                    program)};
  }
  return {};
}

// The bucket holds 2 ms: short beside a step, and several of the kernel's largest packets.
std::string limitOf(const std::string& device, double gigabits) {
  const double bitsPerSecond = std::round(gigabits * 1e9);
  const double burst = std::max(bitsPerSecond / 8 * 2e-3, 256.0 * 1024);
  return fmt::format("tc qdisc add dev {} root tbf rate {:.0f}bit burst {:.0f} latency 50ms",
                     device, bitsPerSecond, burst);
}

}  // namespace

Result<Net> parseNet(std::string_view text) {
  const auto it = std::ranges::find(kNets, text);
  if (it == kNets.end()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("there is no net \"{}\"; there are {}", text, fmt::join(kNets, ", "))};
  }
  return static_cast<Net>(it - kNets.begin());
}

std::string Hosts::address(int host) { return fmt::format("10.78.0.{}", host + 1); }

Result<Hosts> Hosts::pair(Coordinator& coordinator) {
  if (geteuid() != 0) {
    return {StatusCode::kUnsupported, "network namespaces (--net veth, bench network) need root"};
  }
  Hosts made;
  for (int host = 0; host < 2; ++host) {
    COLLA_TRY_ASSIGN(UniqueFd one, makeNamespace());
    made.all_.push_back(std::move(one));
  }
  COLLA_TRY(configure(coordinator, made.all_[0],
                      fmt::format("ip link add {0} type veth peer name {0} netns {1}", kLink,
                                  pathOf(made.all_[1]))));
  for (int host = 0; host < 2; ++host) {
    COLLA_TRY(setUp(coordinator, made.all_[static_cast<std::size_t>(host)], address(host) + "/24"));
  }
  for (const UniqueFd& host : made.all_) COLLA_TRY(awaitLink(host));
  return made;
}

Result<Hosts> Hosts::limited(Coordinator& coordinator, int count, double gigabits) {
  COLLA_TRY(checkTools());
  Hosts made;  // The switch is the last of its namespaces.
  for (int number = 0; number <= count; ++number) {
    COLLA_TRY_ASSIGN(UniqueFd one, makeNamespace());
    made.all_.push_back(std::move(one));
  }
  const UniqueFd& bridge = made.all_.back();
  COLLA_TRY(configure(coordinator, bridge, "ip link add br0 type bridge"));
  COLLA_TRY(configure(coordinator, bridge, "ip link set br0 up"));
  for (int number = 0; number < count; ++number) {
    const UniqueFd& host = made.all_[static_cast<std::size_t>(number)];
    const std::string port = fmt::format("port{}", number);
    COLLA_TRY(configure(coordinator, host,
                        fmt::format("ip link add {} type veth peer name {} netns {}", kLink, port,
                                    pathOf(bridge))));
    COLLA_TRY(setUp(coordinator, host, address(number) + "/24"));
    COLLA_TRY(configure(coordinator, bridge, fmt::format("ip link set {} master br0 up", port)));
    // A filter limits what a device sends: the host's end one direction, the switch's the other.
    if (gigabits == 0) continue;
    COLLA_TRY(configure(coordinator, host, limitOf(kLink, gigabits)));
    COLLA_TRY(configure(coordinator, bridge, limitOf(port, gigabits)));
  }
  for (int host = 0; host < count; ++host) {
    COLLA_TRY(awaitLink(made.all_[static_cast<std::size_t>(host)]));
  }
  return made;
}

Status showOwnDevices() {
  const auto identity = [](const char* path) {
    struct stat file {};
    return stat(path, &file) == 0 ? file.st_ino : 0;
  };
  if (identity("/proc/self/ns/net") ==
      identity(fmt::format("/proc/{}/ns/net", getppid()).c_str())) {
    return {};
  }
  if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
      mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0) {
    return {};
  }
  return {StatusCode::kIo, fmt::format("mount /sys: {}", std::strerror(errno))};
}

Result<LinkBytes> linkBytes(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/net/dev", process));
  std::stringstream text;
  text << file.rdbuf();
  return parseLinkBytes(text.str(), Hosts::kInterface);
}

Result<LinkBytes> parseLinkBytes(const std::string& text, std::string_view device) {
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
