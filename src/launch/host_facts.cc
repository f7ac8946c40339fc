#include "launch/host_facts.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/invalid.h"
#include "base/version.h"
#include "job/cpu.h"
#include "job/environment.h"
#include "launch/program.h"
#include "rendezvous/host_key.h"
#include "transport/net/address.h"
#include "transport/transports.h"

namespace colla::launch {
namespace {

namespace fs = std::filesystem;

std::vector<Interface> interfacesHere() {
  std::vector<Interface> found;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return found;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int family = each->ifa_addr->sa_family;
    const void* bytes = nullptr;
    if (family == AF_INET) bytes = &reinterpret_cast<sockaddr_in*>(each->ifa_addr)->sin_addr;
    if (family == AF_INET6) bytes = &reinterpret_cast<sockaddr_in6*>(each->ifa_addr)->sin6_addr;
    if (bytes == nullptr || inet_ntop(family, bytes, text.data(), text.size()) == nullptr) continue;
    if (std::string_view(text.data()).starts_with("fe80:")) continue;  // Useless without a scope.
    found.push_back({each->ifa_name, text.data()});
  }
  freeifaddrs(all);
  return found;
}

// Where Colla's own models find libtorch: beside us in a wheel, or where the build did.
std::string ownTorch() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return "";
  if (!fs::exists(self.parent_path() / "colla-train", error)) return "";
  const std::string beside = torchVersionIn(self.parent_path() / "../../torch");
  return beside.empty() ? torchVersionIn(COLLA_TORCH_FOLDER) : beside;
}

std::string pythonHere() {
  const char* const path = std::getenv("PATH");
  const auto python = findProgram("python3", path == nullptr ? "" : path);
  return python.ok() ? *python : "";
}

std::vector<std::string> rdmaDevices() {
  std::vector<std::string> devices;
  std::error_code error;
  for (const auto& each : fs::directory_iterator("/sys/class/infiniband", error)) {
    devices.push_back(each.path().filename());
  }
  return devices;
}

std::uint64_t limitOf(__rlimit_resource_t resource) {
  rlimit limit{};
  return getrlimit(resource, &limit) == 0 ? limit.rlim_max : 0;
}

std::uint64_t number(const std::string& text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::string torchVersionIn(const std::string& folder) {
  if (folder.empty()) return "";
  // The wheel's, then that of a libtorch archive.
  std::ifstream file(folder + "/version.py");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find('\'');
    const auto last = line.rfind('\'');
    if (line.starts_with("__version__") && last > first) {
      return line.substr(first + 1, last - first - 1);
    }
  }
  std::string version;
  std::ifstream(folder + "/build-version") >> version;
  return version;
}

// Without starting it, which would take seconds.
std::string torchVersionOf(const std::string& python) {
  if (python.empty()) return "";
  std::error_code error;
  const fs::path real = fs::canonical(python, error);
  for (const fs::path& program : {fs::path(python), real}) {
    const fs::path root = program.parent_path().parent_path();
    for (const char* parts : {"lib", "local/lib"}) {
      for (const auto& each : fs::directory_iterator(root / parts, error)) {
        if (!each.path().filename().string().starts_with("python3")) continue;
        for (const char* packages : {"site-packages/torch", "dist-packages/torch"}) {
          const std::string version = torchVersionIn(each.path() / packages);
          if (!version.empty()) return version;
        }
      }
    }
  }
  return "";
}

HostFacts HostFacts::ofThis() {
  HostFacts facts;
  facts.version = colla::version();
  facts.name = job::hostName();
  facts.key = rendezvous::hostKey();
  facts.cpu = job::cpuFeatures();
  facts.cores = job::usableCpus();
  // Slurm may leave all of a node's processors to every job, and says which number is this one's.
  const char* const allocated = std::getenv("SLURM_CPUS_ON_NODE");
  const auto share = static_cast<int>(number(allocated == nullptr ? "" : allocated));
  if (share > 0) facts.cores = std::min(facts.cores, share);
  facts.memory = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                 static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  facts.torch = ownTorch();
  facts.pythonTorch = torchVersionOf(pythonHere());
  const char* const connection = std::getenv("SSH_CONNECTION");
  std::string port;
  const char* const launcher = std::getenv("SLURM_LAUNCH_NODE_IPADDR");  // Of srun.
  if (connection != nullptr) {
    std::istringstream(connection) >> facts.client >> port >> facts.server;
  } else if (launcher != nullptr) {
    facts.client = launcher;
    const auto own = transport::net::addressTowards(transport::net::withPort(facts.client, 1));
    if (own.ok()) facts.server = *own;
  }
  facts.interfaces = interfacesHere();
  facts.rdma = rdmaDevices();
  const auto preferred = transport::preferredTransports();
  if (!preferred.empty()) facts.fastWire = preferred.front()->name;
  facts.openFiles = limitOf(RLIMIT_NOFILE);
  facts.lockedMemory = limitOf(RLIMIT_MEMLOCK);
  struct statvfs shared {};
  if (statvfs("/dev/shm", &shared) == 0) facts.sharedMemory = shared.f_bavail * shared.f_frsize;
  return facts;
}

Fields HostFacts::fields() const {
  Fields fields;
  fields.add("version", version);
  fields.add("name", name);
  fields.add("key", key);
  fields.add("cpu", cpu);
  fields.add("cores", std::to_string(cores));
  fields.add("memory", std::to_string(memory));
  fields.add("torch", torch);
  fields.add("python torch", pythonTorch);
  fields.add("client", client);
  fields.add("server", server);
  for (const auto& [interface, address] : interfaces) {
    fields.add("interface", fmt::format("{} {}", interface, address));
  }
  for (const std::string& device : rdma) fields.add("rdma", device);
  fields.add("fast wire", fastWire);
  fields.add("open files", std::to_string(openFiles));
  fields.add("locked memory", std::to_string(lockedMemory));
  fields.add("shared memory", std::to_string(sharedMemory));
  return fields;
}

HostFacts HostFacts::from(const Fields& fields) {
  HostFacts facts;
  facts.version = fields["version"];
  facts.name = fields["name"];
  facts.key = fields["key"];
  facts.cpu = fields["cpu"];
  facts.cores = static_cast<int>(number(fields["cores"]));
  facts.memory = number(fields["memory"]);
  facts.torch = fields["torch"];
  facts.pythonTorch = fields["python torch"];
  facts.client = fields["client"];
  facts.server = fields["server"];
  for (const std::string& text : fields.all("interface")) {
    const auto space = text.find(' ');
    if (space == std::string::npos) continue;
    facts.interfaces.push_back({text.substr(0, space), text.substr(space + 1)});
  }
  facts.rdma = fields.all("rdma");
  facts.fastWire = fields["fast wire"];
  facts.openFiles = number(fields["open files"]);
  facts.lockedMemory = number(fields["locked memory"]);
  facts.sharedMemory = number(fields["shared memory"]);
  return facts;
}

Result<std::string> chooseInterface(const std::string& names,
                                    const std::vector<Interface>& interfaces) {
  std::istringstream words(names);
  for (std::string name; std::getline(words, name, ',');) {
    for (const auto& [interface, address] : interfaces) {
      if (name == interface || name == address) return name;
    }
  }
  std::vector<std::string> there;
  for (const auto& [interface, address] : interfaces) {
    there.push_back(fmt::format("{} ({})", interface, address));
  }
  return invalid(
      "there is no network interface {}: there {} {}", names, there.size() == 1 ? "is" : "are",
      there.empty() ? "none with an address" : fmt::format("{}", fmt::join(there, ", ")));
}

}  // namespace colla::launch
