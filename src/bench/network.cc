#include "bench/network.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace colla::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::string_view, 3> kNames = {"shm", "loop", "veth"};

UniqueFd openOwnNamespace() { return UniqueFd(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)); }

}  // namespace

// This process goes there and comes back.
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

Status configure(Coordinator& coordinator, int networkNamespace, std::vector<std::string> words) {
  const ProcessSpec spec = {.name = fmt::format("{}", fmt::join(words, " ")),
                            .program = std::move(words),
                            .body = {},
                            .environment = {},
                            .networkNamespace = networkNamespace};
  return coordinator.run(spec, Deadline::after(10s)).status();
}

std::string pathOf(const UniqueFd& networkNamespace) {
  return fmt::format("/proc/{}/fd/{}", getpid(), networkNamespace.get());
}

std::string_view toString(Net net) { return kNames[static_cast<std::size_t>(net)]; }

Result<Net> parseNet(std::string_view text) {
  const auto it = std::ranges::find(kNames, text);
  if (it == kNames.end()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("there is no net \"{}\"; there are {}", text, fmt::join(kNames, ", "))};
  }
  return static_cast<Net>(it - kNames.begin());
}

std::string VethPair::address(int number) { return fmt::format("10.77.0.{}", number + 1); }

Result<VethPair> VethPair::create(Coordinator& coordinator) {
  if (geteuid() != 0) {
    return {StatusCode::kUnsupported, "--net veth makes network namespaces and needs root"};
  }
  VethPair pair;
  for (int number = 0; number < kSides; ++number) {
    COLLA_TRY_ASSIGN(UniqueFd made, makeNamespace());
    pair.sides_.push_back(std::move(made));
  }
  const auto ip = [&](int number, std::vector<std::string> words) -> Status {
    words.insert(words.begin(), "ip");
    return configure(coordinator, pair.side(number), std::move(words));
  };
  const std::string device(kInterface);
  const std::string other = pathOf(pair.sides_[1]);
  COLLA_TRY(ip(0, {"link", "add", device, "type", "veth", "peer", "name", device, "netns", other}));
  for (int number = 0; number < kSides; ++number) {
    COLLA_TRY(ip(number, {"address", "add", address(number) + "/30", "dev", device}));
    COLLA_TRY(ip(number, {"link", "set", device, "up"}));
    COLLA_TRY(ip(number, {"link", "set", "lo", "up"}));
  }
  return pair;
}

}  // namespace colla::bench
