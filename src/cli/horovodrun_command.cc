// `colla horovodrun`: what horovodrun's flags ask for, done by `colla run`.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/command_line.h"
#include "base/config.h"
#include "commands.h"
#include "job/settings.h"
#include "job/this_host.h"
#include "launch/host_slots.h"
#include "launch/run.h"

namespace colla::cli {
namespace {

constexpr char kHorovodrun[] = "colla horovodrun";

Result<std::vector<launch::HostSlots>> readHostFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return {StatusCode::kNotFound, fmt::format("can't read the host file {}", path)};
  return launch::parseHostFile({std::istreambuf_iterator<char>(file), {}}, path);
}

// How many processes `hosts` has place for, all of which must be this one.
Result<int> slotsHere(const std::vector<launch::HostSlots>& hosts) {
  int slots = 0;
  const auto thisHost = job::ThisHost::real();
  for (const launch::HostSlots& host : hosts) {
    if (!job::isLoopback(host.name) && !thisHost.is(host.name)) {
      return {StatusCode::kUnsupported,
              fmt::format("host {} is not this one: other hosts can't be reached yet; start the "
                          "program there with mpirun, srun or torchrun",
                          host.name)};
    }
    slots = std::min(slots + host.slots, launch::kMaxProcesses);
  }
  return slots;
}

// `import horovod` is to mean Colla in the Pythons of the job, as aliases.py does it for an
// installed wheel. In a clone the package lies beside the command once it was built
// (docs/python.md).
void aliasHorovod(const std::string& program) {
  constexpr char kAliases[] = "COLLA_ALIASES";
  if (std::getenv(kAliases) != nullptr) return;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto packages = self.parent_path().parent_path() / "python";
  const auto site = packages / "colla" / "_site";
  bool built = false;
  for (const auto& entry : std::filesystem::directory_iterator(packages / "colla", error)) {
    const std::string name = entry.path().filename();
    built = built || (name.starts_with("_core.") && name.ends_with(".so"));
  }
  if (built && std::filesystem::exists(site)) {
    const char* const before = std::getenv("PYTHONPATH");
    std::string path = site.string() + ":" + packages.string();
    if (before != nullptr && *before != '\0') path += std::string(":") + before;
    setenv(kAliases, "horovod", 1);
    setenv("PYTHONPATH", path.c_str(), 1);
    return;
  }
  const std::string name = std::filesystem::path(program).filename();
  if (!name.starts_with("python") && !name.ends_with(".py")) return;
  fmt::print(stderr,
             "{}: import horovod means Colla only for a Python that has the package colla: pip "
             "install . there, then start this with `python -m colla horovodrun`\n",
             kHorovodrun);
}

}  // namespace

int horovodrunCommand(const Arguments& arguments) {
  CLI::App app(
      "Starts a program as the workers of one job, with horovodrun's flags:\n"
      "colla horovodrun -np N [-H HOSTS] [flags] PROGRAM [arguments]",
      kHorovodrun);
  app.footer("What each flag sets is also a flag of `colla run`, which has more.\n");
  launch::RunOptions options;
  options.name = kHorovodrun;
  options.workers = 0;
  std::string hostList, hostFile, interfaces, timeline, startTimeout, warning, shutdown, fusion,
      discovery;
  double cycle = -1;
  int port = 0;
  std::optional<int> least, most;  // Of workers, of a job whose number of workers changes.
  bool verbose = false, noStallCheck = false, gloo = false, mpi = false;
  app.add_option("-n,--np,--num-proc", options.workers,
                 "workers; also -np N. By default as many as the hosts have slots");
  app.add_option("-H,--hosts", hostList, "only this host, for now")->option_text("HOST:SLOTS,…");
  app.add_option("--hostfile", hostFile, "file with lines of HOST slots=N")->option_text("FILE");
  app.add_option("-p,--ssh-port", port, "is accepted: there are no hosts to reach by ssh yet");
  app.add_option("--network-interfaces,--network-interface", interfaces,
                 "network interface to listen on; of several, the first (interface)")
      ->option_text("NAME");
  app.add_option("--start-timeout", startTimeout, "seconds to wait for all (start_timeout)")
      ->option_text("SECONDS");
  app.add_flag("--verbose", verbose, "say more (log)");
  app.add_option("--timeline-filename", timeline, "file for a trace (timeline)")
      ->option_text("FILE");
  app.add_flag("--no-stall-check", noStallCheck, "report no stalls (stall_warning)");
  app.add_option("--stall-check-warning-time-seconds", warning,
                 "seconds after which a stall is reported (stall_warning)")
      ->option_text("SECONDS");
  app.add_option("--stall-check-shutdown-time-seconds", shutdown,
                 "seconds after which a stall ends the job (stall_shutdown)")
      ->option_text("SECONDS");
  app.add_option("--fusion-threshold-mb", fusion, "MiB that travel together (fusion_mb)")
      ->option_text("N");
  app.add_option("--cycle-time-ms", cycle, "how long operations wait for others (cycle_us)");
  app.add_option("--min-np,--min-num-proc", least,
                 "accepted; the number of workers does not change yet");
  app.add_option("--max-np,--max-num-proc", most,
                 "accepted; the number of workers does not change yet");
  app.add_option("--host-discovery-script", discovery, "accepted; the script is not run yet")
      ->option_text("FILE");
  app.add_flag("--gloo,--use-gloo", gloo, "is accepted: Colla has a transport of its own");
  app.add_flag("--mpi,--use-mpi", mpi, "is accepted: Colla has a transport of its own");

  Arguments flags = arguments;
  options.command = takeCommand(app, flags);
  if (const auto exitCode = parse(app, flags)) return *exitCode;

  if (app.count("--np") == 0 && least) options.workers = *least;
  if (!hostList.empty() && !hostFile.empty()) {
    return usageError(kHorovodrun, "-H and --hostfile say the same: give one of them");
  }
  if (!hostList.empty() || !hostFile.empty()) {
    const auto hosts = hostFile.empty() ? launch::parseHostSlots(hostList) : readHostFile(hostFile);
    if (!hosts.ok()) return usageError(kHorovodrun, hosts.status().message());
    const auto slots = slotsHere(*hosts);
    if (!slots.ok()) return usageError(kHorovodrun, slots.status().message());
    if (app.count("--np") == 0 && !least) options.workers = *slots;
    if (options.workers > *slots) {
      return usageError(kHorovodrun, fmt::format("-np is {}, but the hosts have {} slots",
                                                 options.workers, *slots));
    }
  } else if (app.count("--np") == 0 && !least) {
    return usageError(kHorovodrun, "--np is required, or hosts with -H or --hostfile");
  }
  if ((least && *least > options.workers) || (most && *most < options.workers)) {
    return usageError(
        kHorovodrun,
        fmt::format("-np is {}, but --min-np and --max-np leave {} to {}", options.workers,
                    least.value_or(1), most.value_or(launch::kMaxProcesses)));
  }
  if (least || most || !discovery.empty()) {
    fmt::print(stderr,
               "{}: the number of workers stays {} for now: --min-np, --max-np and "
               "--host-discovery-script change nothing yet\n",
               kHorovodrun, options.workers);
  }

  std::map<std::string, std::string> settings;
  std::map<std::string, std::string> typed;  // What the user called them.
  const auto set = [&](const char* name, const std::string& value, const char* flag) {
    if (value.empty()) return;
    settings[name] = value;
    typed[flagName(name)] = flag;
  };
  set("interface", interfaces.substr(0, interfaces.find(',')), "--network-interfaces");
  set("start_timeout", startTimeout, "--start-timeout");
  set("timeline", timeline, "--timeline-filename");
  set("stall_warning", noStallCheck ? "0" : warning, "--stall-check-warning-time-seconds");
  set("stall_shutdown", shutdown, "--stall-check-shutdown-time-seconds");
  set("fusion_mb", fusion, "--fusion-threshold-mb");
  if (cycle >= 0) set("cycle_us", fmt::format("{:.0f}", cycle * 1000), "--cycle-time-ms");
  if (verbose) set("log", "debug", "--verbose");
  if (gloo || mpi) {
    fmt::print(stderr, "{}: {} is not needed: Colla has a transport of its own\n", kHorovodrun,
               gloo ? "--gloo" : "--mpi");
  }
  auto config = job::loadConfig(settings);
  if (!config.ok()) {
    const std::string message(config.status().message());
    const std::string flag = message.substr(0, message.find(' '));
    const auto it = typed.find(flag);
    return usageError(kHorovodrun,
                      it == typed.end() ? message : it->second + message.substr(flag.size()));
  }
  options.config = *std::move(config);
  if (!options.command.empty()) aliasHorovod(options.command.front());
  return launch::run(options);
}

}  // namespace colla::cli
