#include "launch/run_hosts.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "base/log.h"
#include "launch/copies.h"
#include "launch/front.h"
#include "launch/hosts.h"
#include "launch/layout.h"
#include "launch/plan.h"
#include "launch/preflight.h"
#include "launch/report.h"
#include "launch/run_parts.h"
#include "launch/store.h"
#include "rendezvous/secret_munge.h"
#include "transport/net/address.h"

namespace colla::launch {
namespace {

namespace net = transport::net;

TorchUse torchUseOf(const RunOptions& options) {
  if (options.ownTorch) return TorchUse::kOwn;
  const std::string program = std::filesystem::path(options.command.front()).filename();
  return program.starts_with("python") ? TorchUse::kPython : TorchUse::kNone;
}

std::string nameIn(const std::string& address) {
  const auto parsed = net::Address::parse(address);
  return parsed.ok() ? parsed->host() : "";
}

std::string programOf(const RunOptions& options) {
  return options.program.empty() ? options.command.front() : options.program;
}

class Run {
 public:
  explicit Run(const RunOptions& options) : options_(options) {
    if (options_.interfaces.empty()) options_.interfaces = options_.config.text("interface");
  }

  // An exit code if the job ends before it has begun.
  std::optional<int> prepare();
  int start();

 private:
  Status limitFiles();
  std::optional<int> lookAtHosts();
  std::optional<int> sendCopies(const std::vector<Hosts::Host>& hosts);
  int endedBy(int signal) const;
  std::string pathHere() const;
  std::optional<int> complainOf(const Status& status, const std::vector<Complaint>& complaints);
  Fields needs() const;
  Status findStoreAddresses(std::vector<std::string>& addresses) const;
  Status serve(std::vector<std::string>& stores);
  void plan(const std::vector<std::string>& stores);
  Status startOn(std::size_t host, const Plan& plan);
  void note(std::string_view what);

  RunOptions options_;
  std::vector<HostLayout> layout_;
  Surroundings surroundings_;
  Inherited inherited_ = Inherited::current();
  std::string copies_;  // Their hash, where --copy has sent them.
  std::set<ProcessId> before_;
  UniqueFd signals_;
  std::unique_ptr<Hosts> hosts_;
  std::unique_ptr<rendezvous::StoreServer> store_;
  TimePoint noted_ = Clock::real().now();
};

// What took how long, for those who wonder.
void Run::note(std::string_view what) {
  const TimePoint now = Clock::real().now();
  if (options_.config.text("log") == "debug") {
    fmt::print(stderr, "{}: {} in {:.2f} s\n", options_.name, what,
               std::chrono::duration<double>(now - noted_).count());
  }
  noted_ = now;
}

// Each host costs a socket and a pipe; output goes through these.
Status Run::limitFiles() {
  const auto files = static_cast<rlim_t>(options_.outputDir.empty() ? 0 : 2) *
                     static_cast<rlim_t>(options_.workers + options_.servers);
  const rlim_t own = 32 + 4 * static_cast<rlim_t>(layout_.size()) + files;
  if (inherited_.files.rlim_max < own) {
    return {StatusCode::kIo, fmt::format("`ulimit -n` is {}, but this job needs {} open files: "
                                         "raise it",
                                         inherited_.files.rlim_max, own)};
  }
  raiseFileLimit(inherited_.files);
  return {};
}

std::optional<int> Run::prepare() {
  if (const Status wrong = checkRunOptions(options_); !wrong.ok()) {
    return complain(options_, wrong, exitCodeOf(wrong));
  }
  if (const Status wrong = checkSsh(options_.ssh); !wrong.ok()) {
    return complain(options_, wrong, exitCodeOf(wrong));
  }
  auto layout = layOut(options_.hosts, options_.workers, options_.servers, options_.serverHosts);
  if (!layout.ok()) return complain(options_, layout.status(), exitCodeOf(layout.status()));
  layout_ = *std::move(layout);
  auto surroundings = Surroundings::here();
  if (!surroundings.ok()) return complain(options_, surroundings.status(), kExitFailure);
  surroundings_ = *std::move(surroundings);
  if (options_.config.integer("metrics_port") >= 0) {
    return complain(options_,
                    {StatusCode::kInvalidArgument,
                     "metrics_port is set, but metrics of several hosts can't be served yet"},
                    kExitUsage);
  }
  if (const Status few = limitFiles(); !few.ok()) return complain(options_, few, kExitFailure);

  const auto before = descendantsOf(getpid());
  before_ = {before.begin(), before.end()};
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signals_ = takeSignals();

  std::vector<Hosts::Host> hosts;
  for (const HostLayout& each : layout_) hosts.push_back(hostOf(each.name, options_.allocation));
  const auto limit =
      std::chrono::ceil<std::chrono::seconds>(options_.config.seconds("start_timeout"));
  if (const auto code = sendCopies(hosts)) return code;
  auto connected = Hosts::connect(
      hosts,
      {.ssh = options_.ssh,
       .colla = collaProgram(),
       .copies = copies_,
       .connectSeconds = static_cast<int>(std::clamp<std::int64_t>(limit.count() - 1, 1, 10))},
      inherited_);
  if (!connected.ok()) return complain(options_, connected.status(), kExitFailure);
  hosts_ = *std::move(connected);
  return lookAtHosts();
}

int Run::endedBy(int signal) const {
  fmt::print(stderr, "{}: ended by {}\n", options_.name, signalName(signal));
  return 128 + signal;
}

std::optional<int> Run::sendCopies(const std::vector<Hosts::Host>& hosts) {
  if (!options_.copy) return std::nullopt;
  const auto copies = Copies::of(collaProgram(), programOf(options_), options_.command, pathHere());
  if (!copies.ok()) {
    return complain(options_, copies.status(), exitCodeOf(copies.status()));
  }
  std::vector<Complaint> complaints;
  const auto signal =
      copies->send(hosts, options_.ssh, inherited_, signals_.get(),
                   Deadline::after(options_.config.seconds("start_timeout")), complaints);
  if (!signal.ok()) return complain(options_, signal.status(), kExitFailure);
  if (*signal != 0) return endedBy(*signal);
  copies_ = copies->hash();
  note("looked for the copies");
  return complainOf({}, complaints);
}

std::optional<int> Run::complainOf(const Status& status, const std::vector<Complaint>& complaints) {
  if (status.code() == StatusCode::kCancelled) {
    signalfd_siginfo info{};
    if (read(signals_.get(), &info, sizeof(info)) != sizeof(info)) return kExitFailure;
    return endedBy(static_cast<int>(info.ssi_signo));
  }
  if (!status.ok()) return complain(options_, status, kExitFailure);
  if (complaints.empty()) return std::nullopt;
  fmt::print(stderr, "{}", toText(complaints, options_.name));
  return kExitFailure;
}

std::string Run::pathHere() const {
  std::string path = "/usr/bin:/bin";
  for (const std::string& entry : surroundings_.environment) {
    if (entry.starts_with("PATH=")) path = entry.substr(5);
  }
  for (const auto& [name, value] : options_.environment) {
    if (name == "PATH") path = value;
  }
  return path;
}

// What a job needs of each host.
Fields Run::needs() const {
  Fields job;
  std::error_code error;
  job.add("folder", std::filesystem::current_path(error).string());
  job.add("program", programOf(options_));
  job.add("path", pathHere());
  job.add("copies", copies_);
  job.add("interfaces", options_.interfaces);
  return job;
}

std::optional<int> Run::lookAtHosts() {
  Preflight preflight(*hosts_, signals_.get(),
                      Deadline::after(options_.config.seconds("start_timeout")));
  Status status = preflight.check(needs(), torchUseOf(options_));
  if (auto code = complainOf(status, preflight.complaints())) return code;
  note(fmt::format("looked at {} hosts", hosts_->size()));
  std::vector<std::string> stores;
  if (const Status served = serve(stores); !served.ok()) {
    return complain(options_, served, kExitFailure);
  }
  status = preflight.reach(stores);
  if (auto code = complainOf(status, preflight.complaints())) return code;
  note("tried the network between them");
  plan(stores);
  return std::nullopt;
}

// This host's address, as each of the others reaches it.
Status Run::findStoreAddresses(std::vector<std::string>& addresses) const {
  // This host need not have the network that is between the others.
  const auto named = chooseInterface(options_.interfaces, HostFacts::ofThis().interfaces);
  if (named.ok()) {
    COLLA_TRY_ASSIGN(const std::string address, net::interfaceAddress(*named));
    addresses.assign(hosts_->size(), address);
    return {};
  }
  for (std::size_t i = 0; i < hosts_->size(); ++i) {
    const HostFacts& facts = *hosts_->answers(i).facts;
    if (hosts_->isHere(i)) {
      addresses.emplace_back();  // As the first of the others.
    } else if (net::interfaceAddress(facts.client).ok()) {
      addresses.push_back(facts.client);
    } else {  // There is a jump host or a translation of addresses in between.
      COLLA_TRY_ASSIGN(addresses.emplace_back(),
                       net::addressTowards(net::withPort(hosts_->name(i), 1)));
    }
  }
  const auto other =
      std::ranges::find_if(addresses, [](const auto& each) { return !each.empty(); });
  for (std::string& address : addresses) {
    if (address.empty()) address = other == addresses.end() ? "127.0.0.1" : *other;
  }
  return {};
}

Status Run::serve(std::vector<std::string>& stores) {
  COLLA_TRY(findStoreAddresses(stores));
  const bool same = std::ranges::adjacent_find(stores, std::not_equal_to<>()) == stores.end();
  COLLA_TRY_ASSIGN(store_, serveStore(net::withPort(same ? stores[0] : "0.0.0.0", 0),
                                      surroundings_.jobId, surroundings_.secretHex));
  COLLA_TRY_ASSIGN(const auto address, net::Address::parse(store_->address()));
  for (std::string& store : stores) store = net::withPort(store, address.port());
  return {};
}

void Run::plan(const std::vector<std::string>& stores) {
  for (std::size_t i = 0; i < hosts_->size(); ++i) {
    const Fields& checked = *hosts_->answers(i).checked;
    surroundings_.hosts.push_back({.layout = layout_[i],
                                   .cores = hosts_->answers(i).facts->cores,
                                   .store = stores[i],
                                   .interface = checked["interface"]});
    if (layout_[i].workers.empty() || layout_[i].workers.front() != 0) continue;
    surroundings_.address = nameIn(checked["address"]);
    surroundings_.freePort = std::atoi(checked["port"].c_str());
  }
}

Status Run::startOn(std::size_t host, const Plan& plan) {
  Fields job;
  std::error_code error;
  job.add("folder", std::filesystem::current_path(error).string());
  job.add("program", (*hosts_->answers(host).checked)["program"]);
  for (const std::string& word : plan.arguments) job.add("argument", word);
  job.add("copies", copies_);
  if (hosts_->isOpen(host)) {
    COLLA_TRY_ASSIGN(const std::string sealed, rendezvous::mungeSeal(plan.secretHex));
    job.add("sealed secret", sealed);
  } else {
    job.add("secret", plan.secretHex);
  }
  std::vector<int> processes = layout_[host].workers;
  for (const int server : layout_[host].servers) processes.push_back(options_.workers + server);
  if (processes.front() == 0) job.add("input", "1");
  for (const int process : processes) {
    job.add("process", "");
    for (const std::string& variable :
         plan.processes[static_cast<std::size_t>(process)].environment) {
      job.add("variable", variable);
    }
  }
  hosts_->start(host, job, std::move(processes));
  return {};
}

int Run::start() {
  const auto plan = makePlan(options_, surroundings_);
  if (!plan.ok()) return complain(options_, plan.status(), exitCodeOf(plan.status()));
  if (const Status published = publishPlaces(*store_, *plan); !published.ok()) {
    return complain(options_, published, kExitFailure);
  }
  auto output = Output::create(*plan, options_);
  if (!output.ok()) return complain(options_, output.status(), kExitFailure);
  auto input = StdinPump::create();
  if (!input.ok()) return complain(options_, input.status(), kExitFailure);
  hosts_->setOutput(&*output);
  hosts_->setInput(input->takeReader());
  log::setSpeaker(fmt::format("{} host {}", options_.name, plan->host));
  for (std::size_t host = 0; host < hosts_->size(); ++host) {
    if (const Status open = startOn(host, *plan); !open.ok()) {
      return complain(options_, open.withContext("the job's secret for " + hosts_->name(host)),
                      kExitFailure);
    }
  }
  note(fmt::format("sent {} processes", plan->processes.size()));

  Supervisor supervisor({.workers = options_.workers,
                         .servers = options_.servers,
                         .timeout = options_.timeout,
                         .grace = options_.grace,
                         .patient = options_.patient,
                         .spareWorkers = options_.spareWorkers},
                        Clock::real().now());
  const auto lostHosts = [&] {
    LostHosts lost;
    for (std::size_t host = 0; host < hosts_->size(); ++host) {
      const std::string& why = hosts_->answers(host).lost;
      if (!why.empty()) lost[hosts_->name(host)] = why;
    }
    return lost;
  };
  Front front(*hosts_, *output, *std::move(input), supervisor, std::move(signals_), before_,
              [&](int worker) {
                return lossNotice(worker, supervisor, *plan, options_, *output, lostHosts());
              });
  front.run();
  const Report report = makeReport(supervisor, *plan, options_, *output, lostHosts());
  if (!report.text.empty()) output->say(report.text);
  front.flush();
  return report.exitCode;
}

}  // namespace

Result<bool> needsOtherHosts(const RunOptions& options) {
  if (options.hosts.empty() && options.serverHosts.empty()) return false;
  COLLA_TRY(checkRunOptions(options));
  COLLA_TRY_ASSIGN(const auto layout,
                   layOut(options.hosts, options.workers, options.servers, options.serverHosts));
  return std::ranges::any_of(layout, [](const HostLayout& host) { return !isThisHost(host.name); });
}

int runOnHosts(const RunOptions& options) {
  Run run(options);
  if (const auto exitCode = run.prepare()) return *exitCode;
  return run.start();
}

}  // namespace colla::launch
