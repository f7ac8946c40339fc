#include "study/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "job/cpu.h"

namespace colla::study {
namespace {

// What follows `name` and a separator in the first line that begins with it.
std::string valueIn(const std::string& path, const std::string& name,
                    const std::string& separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const auto at = line.find(separator);
    if (at == std::string::npos) continue;
    std::string value = line.substr(at + separator.size());
    std::erase(value, '"');
    return value;
  }
  return "unknown";
}

}  // namespace

Machine Machine::here() {
  Machine machine;
  utsname names{};
  uname(&names);
  machine.host = names.nodename;
  machine.kernel = std::string(names.sysname) + " " + names.release + " " + names.machine;
  machine.processor = valueIn("/proc/cpuinfo", "model name", ": ");
  machine.system = valueIn("/etc/os-release", "PRETTY_NAME", "=");
  machine.cores = job::usableCpus();
  machine.memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return machine;
}

}  // namespace colla::study
