#include "rendezvous/host_key.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "transport/net/keys.h"

namespace colla::rendezvous {

std::string hostKey() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  if (boot.empty() || stat("/proc/self/ns/net", &network) != 0) {
    // Without /proc nothing is known to be shared: a host of its own.
    std::byte random[16];
    transport::net::fillRandom(random);
    boot.assign(reinterpret_cast<const char*>(random), sizeof(random));
  }
  const auto facts = fmt::format("{} {} {}", network.st_dev, network.st_ino, geteuid());
  // Hashed, so that a membership list tells nothing about the machine.
  const auto key = transport::net::deriveKey(boot, facts, "colla host key");
  std::string text;
  for (std::size_t i = 0; i < 16; ++i) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(key[i]));
  }
  return text;
}

}  // namespace colla::rendezvous
