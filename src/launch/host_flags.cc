#include "launch/host_flags.h"

#include <cstdlib>
#include <utility>

#include "base/invalid.h"
#include "launch/layout.h"

namespace colla::launch {

HostFlags::HostFlags(CLI::App& app) {
  constexpr char kGroup[] = "Hosts and output";
  app.add_option(
         "-H,--hosts,--host", hosts_,
         "hosts with room for so many workers each, filled one by one; reached by ssh, or by srun "
         "in an allocation of Slurm")
      ->option_text("HOST:SLOTS,…")
      ->group(kGroup);
  app.add_option("--hostfile,--machinefile", hostFile_,
                 "file with the same, as lines of HOST slots=N")
      ->option_text("FILE")
      ->group(kGroup);
  app.add_option("--server-hosts", serverHosts_,
                 "where parameter servers go, instead of to the workers' hosts in turn")
      ->option_text("HOST:SERVERS,…")
      ->group(kGroup);
  app.add_option("-p,--ssh-port", ssh_.port, "port of sshd on the hosts")
      ->option_text("PORT")
      ->group(kGroup);
  app.add_option("-i,--ssh-identity-file", ssh_.identity, "file of the key for ssh")
      ->option_text("FILE")
      ->group(kGroup);
  app.add_option("--ssh-arg", ssh_.arguments,
                 "one more word for ssh, such as -vv or -oUser=ann; may be repeated")
      ->option_text("WORD")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kGroup);
  app.add_option("--network-interfaces,--network-interface", interfaces_,
                 "interfaces or addresses to use between the hosts; each host takes the first that "
                 "it has")
      ->option_text("NAME,…")
      ->group(kGroup);
  app.add_option("--output-dir", outputDir_,
                 "also write what each process says to worker-0.out, worker-0.err, … there")
      ->option_text("DIR")
      ->group(kGroup);
  app.add_flag("--copy", copy_,
               "bring Colla and the program to hosts that lack them; not libtorch or a Python")
      ->group(kGroup);
  app.add_flag("--prefix-timestamps", timestamps_, "say before each line when it came")
      ->group(kGroup);
}

Status HostFlags::applyTo(RunOptions& options) const {
  if (!hosts_.empty() && !hostFile_.empty()) {
    return invalid("-H and --hostfile say the same: give one of them");
  }
  if (!hosts_.empty()) {
    COLLA_TRY_ASSIGN(options.hosts, parseHostSlots(hosts_));
  } else if (!hostFile_.empty()) {
    COLLA_TRY_ASSIGN(options.hosts, readHostFile(hostFile_));
  }
  if (!options.hosts.empty()) {
    // What is not understood is reached by ssh.
    auto nodes = allocatedNodes([](const char* name) { return std::getenv(name); });
    if (nodes.ok()) options.allocation = *std::move(nodes);
  }
  if (!serverHosts_.empty()) {
    COLLA_TRY_ASSIGN(options.serverHosts, parseHostSlots(serverHosts_, "--server-hosts"));
    if (options.hosts.empty()) return invalid("--server-hosts needs the workers' hosts, with -H");
    if (options.servers == 0) options.servers = slotsOf(options.serverHosts);
  }
  if (options.workers == 0 && !options.hosts.empty()) options.workers = slotsOf(options.hosts);
  COLLA_TRY(checkSsh(ssh_));
  options.ssh = ssh_;
  options.interfaces = interfaces_;
  options.outputDir = outputDir_;
  options.prefixTimestamps = timestamps_;
  options.copy = copy_;
  return {};
}

std::vector<std::string> HostFlags::words() const {
  std::vector<std::string> words;
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  add("-H", hosts_);
  add("--hostfile", hostFile_);
  add("--server-hosts", serverHosts_);
  if (ssh_.port > 0) add("-p", std::to_string(ssh_.port));
  add("-i", ssh_.identity);
  for (const std::string& word : ssh_.arguments) words.push_back("--ssh-arg=" + word);
  add("--network-interfaces", interfaces_);
  add("--output-dir", outputDir_);
  if (timestamps_) words.emplace_back("--prefix-timestamps");
  if (copy_) words.emplace_back("--copy");
  return words;
}

}  // namespace colla::launch
