#include "launch/run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "launch/front.h"
#include "launch/guardian.h"
#include "launch/host_facts.h"
#include "launch/hosts.h"
#include "launch/layout.h"
#include "launch/metrics.h"
#include "launch/plan.h"
#include "launch/report.h"
#include "launch/run_hosts.h"
#include "launch/run_parts.h"
#include "launch/store.h"
#include "rendezvous/secret.h"
#include "rendezvous/secret_descriptor.h"

namespace colla::launch {

int complain(const RunOptions& options, const Status& status, int exitCode) {
  fmt::print(stderr, "{}: {}\n", options.name, status.message());
  return exitCode;
}

void fillStandardDescriptors() {
  for (;;) {
    const int fd = open("/dev/null", O_RDWR);
    if (fd > STDERR_FILENO) close(fd);
    if (fd < 0 || fd > STDERR_FILENO) return;
  }
}

void raiseFileLimit(rlimit files) {
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

UniqueFd takeSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal :
       {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH}) {
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) {
      sigaddset(&set, signal);
    }
  }
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

int exitCodeOf(const Status& planning) {
  switch (planning.code()) {
    case StatusCode::kInvalidArgument:
      return kExitUsage;
    case StatusCode::kNotFound:
      return kExitNotFound;
    case StatusCode::kRefused:
      return kExitNotExecutable;
    default:
      return kExitFailure;
  }
}

Status useAllocation(RunOptions& options) {
  if (!options.hosts.empty()) return {};
  COLLA_TRY_ASSIGN(options.allocation,
                   allocatedNodes([](const char* name) { return std::getenv(name); }));
  if (options.allocation.empty()) return {};
  std::vector<HostSlots> hosts;
  bool here = true;
  for (const AllocatedNode& node : options.allocation) {
    hosts.push_back({.name = node.name, .slots = node.slots});
    here = here && isThisHost(node.name);
  }
  if (options.workers == 0) options.workers = slotsOf(hosts);
  // A node may have one task with many processors, for a program that starts its own workers.
  if (!here) options.hosts = std::move(hosts);
  return {};
}

namespace {

// Open files are scarce where `ulimit -n` is low, and what lacks one then says only what it lacks.
// Workers have the limit that was inherited, and need more where each talks to many.
Status checkFileLimit(const rlimit& files, const RunOptions& options) {
  constexpr rlim_t kOfWorker = 20;
  const auto processes = static_cast<rlim_t>(options.workers + options.servers);
  const rlim_t own = 16 + processes * (options.outputDir.empty() ? 4 : 6);
  const bool fits = files.rlim_max >= own && files.rlim_cur >= kOfWorker;
  if (fits) return {};
  return {StatusCode::kIo,
          fmt::format("`ulimit -n` is {}, but a job of {} process{} needs {} open files: raise it",
                      std::min(files.rlim_cur, files.rlim_max), processes,
                      processes == 1 ? "" : "es", std::max(own, kOfWorker))};
}

std::vector<Command> commandsOf(const Plan& plan, const Output& output, const StdinPump& input,
                                int null, int secret) {
  std::vector<Command> commands;
  for (std::size_t i = 0; i < plan.processes.size(); ++i) {
    commands.push_back({.program = plan.program,
                        .arguments = plan.arguments,
                        .environment = plan.processes[i].environment,
                        .input = i == 0 ? input.reader() : null,
                        .output = output.writer(i, kOut),
                        .error = output.writer(i, kErr),
                        .secret = secret});
  }
  return commands;
}

}  // namespace

int run(const RunOptions& given) {
  fillStandardDescriptors();
  RunOptions options = given;
  const auto others = needsOtherHosts(options);
  if (!others.ok()) return complain(options, others.status(), exitCodeOf(others.status()));
  if (*others) return runOnHosts(options);
  if (!options.interfaces.empty()) {
    const auto chosen = chooseInterface(options.interfaces, HostFacts::ofThis().interfaces);
    if (!chosen.ok()) return complain(options, chosen.status(), kExitUsage);
    options.config = options.config.with("interface", *chosen, "--network-interfaces");
  }
  auto surroundings = Surroundings::here();
  if (!surroundings.ok()) return complain(options, surroundings.status(), kExitFailure);
  const auto secret =
      rendezvous::makeSecretDescriptor(*rendezvous::bytesFromHex(surroundings->secretHex));
  if (!secret.ok()) return complain(options, secret.status(), kExitFailure);
  surroundings->secretFd = secret->get();
  const auto plan = makePlan(options, *surroundings);
  if (!plan.ok()) return complain(options, plan.status(), exitCodeOf(plan.status()));

  const Inherited inherited = Inherited::current();
  if (const Status few = checkFileLimit(inherited.files, options); !few.ok()) {
    return complain(options, few, kExitFailure);
  }
  const auto endpoint = observe::MetricsEndpoint::open(options.config);
  if (!endpoint.ok()) {
    const bool usage = endpoint.status().code() == StatusCode::kInvalidArgument;
    return complain(options, endpoint.status(), usage ? kExitUsage : kExitFailure);
  }

  raiseFileLimit(inherited.files);
  auto output = Output::create(*plan, options);
  if (!output.ok()) return complain(options, output.status(), kExitFailure);
  auto input = StdinPump::create();
  if (!input.ok()) return complain(options, input.status(), kExitFailure);
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));

  // Whoever ran exec may have had children before: they are none of our business.
  const auto before = descendantsOf(getpid());
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  UniqueFd signals = takeSignals();

  auto guardian =
      Guardian::create(commandsOf(*plan, *output, *input, null.get(), secret->get()), inherited);
  if (!guardian.ok()) return complain(options, guardian.status(), kExitFailure);
  output->closeWriters();
  input->closeReader();

  log::setSpeaker(fmt::format("{} host {}", options.name, plan->host));
  // Only now: a process with threads should not fork.
  const auto store = serveStore(plan->store, plan->jobId, plan->secretHex);
  if (!store.ok()) return complain(options, store.status(), kExitFailure);
  if (const Status published = publishPlaces(**store, *plan); !published.ok()) {
    return complain(options, published, kExitFailure);
  }

  serveMetrics(endpoint->get(), *plan);
  if (*endpoint != nullptr) output->say((*endpoint)->notice());

  Supervisor supervisor({.workers = options.workers,
                         .servers = options.servers,
                         .timeout = options.timeout,
                         .grace = options.grace,
                         .patient = options.patient,
                         .spareWorkers = options.spareWorkers},
                        Clock::real().now());
  Front front(*guardian, *output, *std::move(input), supervisor, std::move(signals),
              {before.begin(), before.end()},
              [&](int worker) { return lossNotice(worker, supervisor, *plan, options, *output); });
  front.run();
  const Report report = makeReport(supervisor, *plan, options, *output);
  if (!report.text.empty()) output->say(report.text);
  front.flush();
  return report.exitCode;
}

}  // namespace colla::launch
